//! Owns when a misspelling is close enough to name what was probably meant.

/// Returns the one of `known` that `typed` most resembles, if it resembles any.
pub(crate) fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    // Long garbage is not a misspelling of anything, and the comparison is quadratic.
    if typed.len() > 64 {
        return None;
    }
    known
        .into_iter()
        .map(|name| {
            let distance = strsim::damerau_levenshtein(&typed, &name.to_lowercase());
            (distance, name)
        })
        // A third of the word may be wrong: `heders` is `headers`, `cwd` is not `env`.
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        let known = ["command", "headers", "env", "cwd", "max_timeout"];
        assert_eq!(closest("comand", known), Some("command"));
        assert_eq!(closest("Header", known), Some("headers"));
        assert_eq!(closest("maxTimeout", known), Some("max_timeout"));
        assert_eq!(closest("cwd2", known), Some("cwd"));
        assert_eq!(closest("proxy", known), None);
        assert_eq!(closest("", known), None);
        assert_eq!(closest(&"command".repeat(50), known), None);
    }
}
