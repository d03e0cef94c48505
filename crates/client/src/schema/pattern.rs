//! Estimates the size of a pattern before it is compiled.

/// The approximate number of states of a compiled pattern, some 400 bytes each. A match takes at
/// most as many steps per byte of text.
///
/// Only counted repetitions, which multiply also when nested, and large classes can make a short
/// pattern large. A malformed pattern gets some number, since compiling will refuse it.
pub(super) fn states(pattern: &str) -> u64 {
    let mut groups: Vec<u64> = Vec::new();
    // States in the open group without the last atom, which a repetition may still multiply.
    let (mut before, mut last) = (0_u64, 0_u64);
    let mut shorthands = 0_u64;
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let atom = match character {
            '(' => {
                if ignores_space(rest.as_str()) {
                    return u64::MAX;
                }
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
            '\\' => {
                let atom = escape(&mut rest);
                shorthands += u64::from(atom.shorthand);
                atom.states
            }
            '[' => class(&mut rest, &mut shorthands),
            '.' => ANY_CHAR_STATES,
            _ => 1,
        };
        before = before.saturating_add(last);
        last = atom;
    }
    let states = groups.into_iter().fold(before.saturating_add(last), u64::saturating_add);
    // Each shorthand is expanded in a pass of its own over the whole pattern.
    let passes = shorthands.saturating_mul(pattern.len() as u64) / BYTES_PER_STATE;
    states.saturating_add(passes).max(1)
}

/// Whether a group sets the flag `x`, under which white space is ignored and repetitions could not
/// be recognized here. The flag is not part of the ECMA-262 syntax.
fn ignores_space(group: &str) -> bool {
    let flags = group.strip_prefix('?').unwrap_or_default();
    let end = flags.find(|flag: char| flag != '-' && !flag.is_ascii_alphabetic()).unwrap_or(flags.len());
    flags[..end].contains('x')
}

/// How often `{n}`, `{n,}` or `{n,m}` repeats, and its length after the `{`; 0 if it is no
/// repetition.
fn repetition(rest: &str) -> (u64, usize) {
    let Some(end) = rest.find('}') else { return (1, 0) };
    let (least, most) = rest[..end].split_once(',').unwrap_or((&rest[..end], ""));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    // A number that overflows counts as the maximum.
    let huge = |text: &str| !text.trim().is_empty() && text.trim().bytes().all(|byte| byte.is_ascii_digit());
    let times = |text: &str| number(text).or(huge(text).then_some(u64::MAX));
    match (times(least), times(most)) {
        (None, None) => (1, 0),
        (least, most) => (most.unwrap_or(0).max(least.unwrap_or(0)).max(1), end + 1),
    }
}

struct Escape {
    states: u64,
    /// Whether it is expanded before compiling.
    shorthand: bool,
}

/// Parses an escape to its end: `\p{L}` is one atom.
fn escape(rest: &mut std::str::Chars<'_>) -> Escape {
    let (states, shorthand) = match rest.next() {
        Some('p' | 'P') => {
            if !skip_braces(rest) {
                rest.next();
            }
            (UNICODE_CLASS_STATES, false)
        }
        Some('x' | 'u' | 'U') => {
            skip_braces(rest);
            (2, false)
        }
        Some('D' | 'W' | 's' | 'S') => (2 * ANY_CHAR_STATES, true),
        Some('d' | 'w' | 'c') => (2, true),
        _ => (2, false),
    };
    Escape { states, shorthand }
}

/// Skips a group in braces, if one follows.
fn skip_braces(rest: &mut std::str::Chars<'_>) -> bool {
    let text = rest.as_str();
    let end = text.starts_with('{').then(|| text.find('}')).flatten();
    if let Some(end) = end {
        *rest = text[end + 1..].chars();
    }
    end.is_some()
}

/// The number of states of a class, up to its closing `]`.
fn class(rest: &mut std::str::Chars<'_>, shorthands: &mut u64) -> u64 {
    let (mut widest, mut plain, mut wide) = (0, 0_u64, 0_u64);
    let mut first = true;
    while let Some(character) = rest.next() {
        match character {
            '\\' => {
                let atom = escape(rest);
                *shorthands += u64::from(atom.shorthand);
                // Overlapping ranges are merged: two large ones are hardly larger than one.
                widest = atom.states.max(widest);
                plain += 4;
            }
            '^' if first => continue,
            // A leading `]` is a member.
            ']' if !first => break,
            _ if character.is_ascii() => plain += 1,
            _ => wide += 1,
        }
        first = false;
    }
    4 + widest + plain / 8 + wide
}

/// States of `.`: characters have up to four bytes.
const ANY_CHAR_STATES: u64 = 4;
/// States of a class such as `\p{L}`, which has hundreds of ranges.
const UNICODE_CLASS_STATES: u64 = 128;
/// Number of pattern bytes per pass that count as one state.
const BYTES_PER_STATE: u64 = 8;

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
        assert!(states("a{99999999999999999999999}") > 1 << 60);
        let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
        assert!(states(uuid) < 200, "{}", states(uuid));
        for odd in ["", "(", "[", "\\", "{", "a{", "a{x}", ")", "a}", "[\\]"] {
            assert!(states(odd) >= 1, "{odd}");
        }
    }

    /// A large class is one atom in every notation, and a repetition multiplies all of it.
    #[test]
    fn classes_are_multiplied_whole() {
        for large in [
            r"\p{L}{50}",
            r"\pL{50}",
            r"\P{Lu}{50}",
            r"[\p{L}]{50}",
            r"[]\p{L}]{50}",
            r"[^]\p{L}]{50}",
            r"(?:\p{L}){50}",
        ] {
            assert!(states(large) >= 3_200, "{large}: {}", states(large));
        }
        assert_eq!(states(r"(?x)\p{L} {50}"), u64::MAX);
        assert_eq!(states(r"(?i-x:\p{L} {50})"), u64::MAX);
        assert!(states("(?<x>a)(?:x)(?i)") < 20);
        // A realistic pattern for names.
        assert!(states(r"^[\p{L}\p{M}\p{N} '-]{1,64}$") < 10_000);
        let letters: String = (0x400..0x500).filter_map(char::from_u32).collect();
        assert!(states(&format!("[{letters}]{{10}}")) >= 2_560);
        assert!(states(&r"\d".repeat(10_000)) > 10_000_000, "it is passed over ten thousand times");
        assert!(states(&r"\cA".repeat(10_000)) > 10_000_000);
        assert!(states(r"^\d{3}-\d{4}$") < 30);
    }
}
