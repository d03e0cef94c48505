//! Whether a licence expression can be met with licences from a list.

/// True if choosing among the `OR`s of `expression` leaves only licences in `allowed`.
///
/// An expression that cannot be read is not met.
pub(super) fn is_met(expression: &str, allowed: &[String]) -> bool {
    // Crates from before SPDX write `MIT/Apache-2.0` and mean a choice.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut reader = Reader { words: spaced.split_whitespace().collect(), at: 0, allowed };
    reader.any_of().is_some_and(|met| met && reader.at == reader.words.len())
}

struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a [String],
}

impl<'a> Reader<'a> {
    fn any_of(&mut self) -> Option<bool> {
        let mut met = self.all_of()?;
        while self.accept("OR") {
            met |= self.all_of()?;
        }
        Some(met)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.accept("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.accept("(") {
            let met = self.any_of()?;
            return self.accept(")").then_some(met);
        }
        let mut name = self.next()?.to_owned();
        if matches!(name.as_str(), ")" | "OR" | "AND" | "WITH") {
            return None;
        }
        if self.accept("WITH") {
            name = format!("{name} WITH {}", self.next()?);
        }
        Some(self.allowed.contains(&name))
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    fn accept(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::is_met;

    fn met(expression: &str) -> bool {
        is_met(expression, &["MIT".to_owned(), "ISC".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()])
    }

    #[test]
    fn a_choice_needs_one_and_a_sum_needs_all() {
        assert!(met("MIT"));
        assert!(met("GPL-3.0 OR MIT"));
        assert!(met("MIT/Apache-2.0"));
        assert!(met("(MIT OR GPL-3.0) AND ISC"));
        assert!(met("Apache-2.0 WITH LLVM-exception OR GPL-3.0"));
        assert!(!met("MIT AND GPL-3.0"));
        assert!(!met("GPL-3.0 OR MIT AND GPL-2.0"));
        assert!(!met("Apache-2.0"));
    }

    #[test]
    fn what_cannot_be_read_is_not_met() {
        assert!(!met(""));
        assert!(!met("(MIT"));
        assert!(!met("MIT OR"));
        assert!(!met("MIT ISC"));
        assert!(!met("OR MIT"));
    }
}
