//! Owns how large a pattern is, before it is compiled.

/// About how many states a pattern compiles to. A match takes at most so many steps for each byte of text.
///
/// Counted repetitions multiply what they repeat, also when they are nested; that is all that can make a
/// short pattern large. What is malformed gets some number: compiling will refuse it.
pub(super) fn states(pattern: &str) -> u64 {
    let mut groups: Vec<u64> = Vec::new();
    // States so far in the open group, without the last atom, which a repetition may still multiply.
    let (mut before, mut last) = (0_u64, 0_u64);
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let atom = match character {
            '(' => {
                groups.push(before.saturating_add(last));
                (before, last) = (0, 0);
                continue;
            }
            ')' => {
                let group = before.saturating_add(last).saturating_add(1);
                before = groups.pop().unwrap_or(0);
                last = group;
                continue;
            }
            '{' => {
                let (times, length) = repetition(rest.as_str());
                if length > 0 {
                    rest = rest.as_str()[length..].chars();
                    last = last.saturating_mul(times);
                    continue;
                }
                1
            }
            '*' | '+' | '?' => continue,
            '\\' => match rest.next() {
                Some('p' | 'P') => UNICODE,
                _ => 2,
            },
            '[' => class(&mut rest),
            _ => 1,
        };
        before = before.saturating_add(last);
        last = atom;
    }
    groups.into_iter().fold(before.saturating_add(last), u64::saturating_add).max(1)
}

/// How often `{n}`, `{n,}` or `{n,m}` repeats, and how many bytes it has after its `{`; 0 if it is none.
fn repetition(rest: &str) -> (u64, usize) {
    let Some(end) = rest.find('}') else { return (1, 0) };
    let (least, most) = rest[..end].split_once(',').unwrap_or((&rest[..end], ""));
    let Ok(least) = least.trim().parse::<u64>() else { return (1, 0) };
    (most.trim().parse::<u64>().unwrap_or(0).max(least).max(1), end + 1)
}

/// States of a class, up to the `]` that ends it.
fn class(rest: &mut std::str::Chars<'_>) -> u64 {
    let mut states = 4;
    while let Some(character) = rest.next() {
        match character {
            '\\' if matches!(rest.next(), Some('p' | 'P')) => states += UNICODE,
            ']' => break,
            _ => {}
        }
    }
    states
}

/// States of a class such as `\p{L}`: it has hundreds of ranges.
const UNICODE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_multiply() {
        assert_eq!(states("abc"), 3);
        assert_eq!(states("a{100}"), 100);
        assert!(states("(a{100}){100}") >= 10_000);
        assert!(states("((a{1,1000}){1000}){1000}") >= 1_000_000_000);
        assert!(states("(((((a{9999}){9999}){9999}){9999}){9999}){9999}") > 1 << 60);
        let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
        assert!(states(uuid) < 200, "{}", states(uuid));
        for odd in ["", "(", "[", "\\", "{", "a{", "a{x}", ")", "a}", "[\\]"] {
            assert!(states(odd) >= 1, "{odd}");
        }
    }
}
