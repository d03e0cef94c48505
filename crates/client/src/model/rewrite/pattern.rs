//! Owns which patterns a provider is given: those that mean the same in every engine.
//!
//! One that its engine does not take (look-around, `\p{…}`, a slip) makes a provider refuse the request with all
//! its tools. A pattern that is not given costs little: arguments are checked against the original.

use crate::schema;

/// What the patterns of one tool may cost to try.
pub(super) struct Budget(u64);

/// States of all patterns that are tried for one tool.
const MAX_STATES: u64 = 10_000;
/// States of one. Engines have limits of their own: 1000 repetitions in one of them.
const MAX_ONE: u64 = 1_000;
/// What any pattern costs.
const EACH: u64 = 20;

impl Default for Budget {
    fn default() -> Self {
        Self(MAX_STATES)
    }
}

impl Budget {
    /// Whether a provider takes it. Without means to find out it counts as one that is not taken.
    pub(super) fn takes(&mut self, pattern: &str) -> bool {
        if !is_common(pattern) {
            return false;
        }
        let states = schema::pattern_states(pattern);
        let Some(left) = self.0.checked_sub(states.saturating_add(EACH)).filter(|_| states <= MAX_ONE) else {
            return false;
        };
        self.0 = left;
        schema::is_linear(pattern)
    }
}

/// Whether it is written only in what all engines share. Whether it is well-formed is for a compiler to say.
fn is_common(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    // What stood before can be repeated.
    let mut repeatable = false;
    while let Some(character) = rest.next() {
        repeatable = match character {
            '\\' => match escape(&mut rest) {
                Some(atom) => atom,
                None => return false,
            },
            '[' => {
                if !class(&mut rest) {
                    return false;
                }
                true
            }
            // A closing brace or bracket that closes nothing is a letter to some, a mistake to others.
            ']' | '}' => return false,
            '(' => {
                // Groups that look around, have a name or set a flag begin with a question mark.
                if let Some(special) = rest.as_str().strip_prefix('?') {
                    let Some(plain) = special.strip_prefix(':') else { return false };
                    rest = plain.chars();
                }
                false
            }
            '|' | '^' | '$' => false,
            '*' | '+' | '?' | '{' => {
                if !repeatable || (character == '{' && !counted(&mut rest)) {
                    return false;
                }
                // As few as possible: the only thing that may follow. Another repetition is a mistake to some.
                if let Some(after) = rest.as_str().strip_prefix('?') {
                    rest = after.chars();
                }
                false
            }
            _ => true,
        };
    }
    true
}

/// After a backslash: whether it is something to repeat. `None` for what not all engines know: properties,
/// back-references, codes.
fn escape(rest: &mut std::str::Chars<'_>) -> Option<bool> {
    match rest.next()? {
        'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'n' | 'r' | 't' => Some(true),
        'b' | 'B' => Some(false),
        mark if "^$\\.*+?()[]{}|/-".contains(mark) => Some(true),
        _ => None,
    }
}

/// After a bracket, up to the one that ends the class.
fn class(rest: &mut std::str::Chars<'_>) -> bool {
    if let Some(negated) = rest.as_str().strip_prefix('^') {
        *rest = negated.chars();
    }
    let mut before = '[';
    while let Some(character) = rest.next() {
        match character {
            // In some engines the first one is a letter.
            ']' => return before != '[',
            // A class within a class, or the beginning of one.
            '[' => return false,
            '\\' if escape(rest) != Some(true) => return false,
            // Operations on sets.
            '&' | '~' | '-' | '|' if before == character => return false,
            _ => {}
        }
        before = character;
    }
    false
}

/// After a brace: `n}`, `n,}` or `n,m}`.
fn counted(rest: &mut std::str::Chars<'_>) -> bool {
    let Some((count, after)) = rest.as_str().split_once('}') else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = match count.split_once(',') {
        Some((least, most)) => number(least) && (most.is_empty() || number(most)),
        None => number(count),
    };
    *rest = after.chars();
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_engine_takes() {
        for taken in [
            "",
            "^a",
            r"^\d{4}-\d{2}-\d{2}$",
            "^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
            r"^[\w.+-]+@[\w-]+\.[\w.]+$",
            r"^(a|b)*?c{2,}d{1,3}?$",
            r"^[^\s/\\\]]+$",
            "é+",
            r"\bword\b",
        ] {
            assert!(Budget::default().takes(taken), "{taken}");
        }
        for refused in [
            "(?=a)",
            "(?!a)",
            "(?<=a)b",
            "(?<!a)b",
            "(?<n>a)",
            "(?P<n>a)",
            "(?i)a",
            r"(a)\1",
            r"\k<n>",
            r"\p{L}",
            r"\PL",
            r"[\p{L}]",
            r"\x41",
            r"\u0041",
            r"\z",
            r"\cA",
            "(",
            ")",
            "[",
            "[]",
            "[]a]",
            "[^]a]",
            "[[:alpha:]]",
            "[a&&b]",
            "[a--b]",
            "[z-a]",
            "a{",
            "{",
            "a{,3}",
            "a{3,1}",
            "a{x}",
            "a}",
            "]",
            "*",
            "+a",
            "a**",
            "a++",
            "a{2}{3}",
            "^*",
            "(|*)",
            r"\",
            r"\d{1001}",
            "(a{40}){40}",
            r"[a\b]",
            r"\_",
        ] {
            assert!(!Budget::default().takes(refused), "{refused}");
        }
    }

    /// However many there are, no more than so much is compiled.
    #[test]
    fn all_patterns_of_a_tool_have_one_budget() {
        let mut budget = Budget::default();
        let taken = (0..1_000).filter(|n| budget.takes(&format!("a{{500}}{n}"))).count();
        assert!((10..=20).contains(&taken), "{taken}");
    }
}
