//! Decides which patterns a provider is given: those that mean the same in every regex engine.
//!
//! An unsupported pattern (look-around, `\p{…}`, a mistake) makes a provider refuse the request
//! with all its tools. Leaving one out costs little: arguments are checked against the original.

use crate::schema;

/// The remaining cost of the patterns of one tool.
pub(super) struct PatternBudget(u64);

/// Maximum number of states of all patterns of one tool.
const MAX_STATES: u64 = 10_000;
/// Maximum number of states of one pattern. Engines have their own limits, such as 1000
/// repetitions.
const MAX_PATTERN_STATES: u64 = 1_000;
/// Base cost of a pattern.
const PATTERN_BASE_COST: u64 = 20;

impl Default for PatternBudget {
    fn default() -> Self {
        Self(MAX_STATES)
    }
}

impl PatternBudget {
    /// Whether a provider accepts the pattern. Without enough budget to find out, it does not.
    pub(super) fn accepts(&mut self, pattern: &str) -> bool {
        if !is_common(pattern) {
            return false;
        }
        let states = schema::pattern_states(pattern);
        let Some(left) = self
            .0
            .checked_sub(states.saturating_add(PATTERN_BASE_COST))
            .filter(|_| states <= MAX_PATTERN_STATES)
        else {
            return false;
        };
        self.0 = left;
        schema::is_linear(pattern)
    }
}

/// Whether it uses only syntax that all engines share. A compiler checks whether it is well-formed.
fn is_common(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    // Whether the previous atom can be repeated.
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
            // An unmatched closing brace or bracket is a literal in some engines and an error in
            // others.
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
                if !repeatable || (character == '{' && !skip_count(&mut rest)) {
                    return false;
                }
                // A lazy marker may follow, but no second repetition, which some engines refuse.
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

/// Parses an escape. Returns whether it can be repeated, or `None` if not all engines support it
/// (properties, back-references, codes).
fn escape(rest: &mut std::str::Chars<'_>) -> Option<bool> {
    match rest.next()? {
        'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'n' | 'r' | 't' => Some(true),
        'b' | 'B' => Some(false),
        mark if "^$\\.*+?()[]{}|/-".contains(mark) => Some(true),
        _ => None,
    }
}

/// Parses a class up to its closing bracket.
fn class(rest: &mut std::str::Chars<'_>) -> bool {
    if let Some(negated) = rest.as_str().strip_prefix('^') {
        *rest = negated.chars();
    }
    let mut before = '[';
    while let Some(character) = rest.next() {
        match character {
            // Some engines take a leading `]` as a literal.
            ']' => return before != '[',
            // A nested class.
            '[' => return false,
            '\\' if escape(rest) != Some(true) => return false,
            // Set operations.
            '&' | '~' | '-' | '|' if before == character => return false,
            _ => {}
        }
        before = character;
    }
    false
}

/// Parses a count: `n}`, `n,}` or `n,m}`.
fn skip_count(rest: &mut std::str::Chars<'_>) -> bool {
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
            assert!(PatternBudget::default().accepts(taken), "{taken}");
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
            assert!(!PatternBudget::default().accepts(refused), "{refused}");
        }
    }

    /// However many patterns there are, the work is limited.
    #[test]
    fn all_patterns_of_a_tool_have_one_budget() {
        let mut budget = PatternBudget::default();
        let taken = (0..1_000).filter(|n| budget.accepts(&format!("a{{500}}{n}"))).count();
        assert!((10..=20).contains(&taken), "{taken}");
    }
}
