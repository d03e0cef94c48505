//! Decides when a misspelled name is close enough to another one to suggest it.

/// Returns the name that is closest to `typed`, if one is close enough.
pub(crate) fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long text is not a misspelling of anything, and the comparison is quadratic.
    if typed.len() > MAX_NAME_LEN {
        return None;
    }
    let typed = typed.to_lowercase();
    let near = known.into_iter().filter(|name| name.len() <= MAX_NAME_LEN).filter_map(|name| {
        let lower = name.to_lowercase();
        let distance = strsim::damerau_levenshtein(&typed, &lower);
        let close = distance <= (lower.chars().count() / 3).max(1);
        // A part of a name counts as well as a misspelled one.
        let part = typed.len() >= 3 && lower.contains(&typed);
        (close || part).then_some((distance, name))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

const MAX_NAME_LEN: usize = 128;

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        let known = ["search_files", "read_file", "echo"];
        assert_eq!(closest("ehco", known), Some("echo"));
        assert_eq!(closest("readfile", known), Some("read_file"));
        assert_eq!(closest("SEARCH", known), Some("search_files"));
        assert_eq!(closest("delete", known), None);
        assert_eq!(closest("", known), None);
        assert_eq!(closest(&"echo".repeat(100), known), None);
    }
}
