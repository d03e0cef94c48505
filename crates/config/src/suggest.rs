//! Owns when a misspelling is close enough to name what was probably meant.

/// Returns the one of `known` that `typed` most resembles, if it resembles any. For the keys and
/// words of a file, which are copied or typed in full.
pub(crate) fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(typed, known, |_, _| false)
}

/// Returns the one of `known` that `typed` most resembles or is a part of, if there is one. For
/// names of servers, tools and prompts, which people often remember in part.
pub fn closest_name<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(typed, known, |typed, name| typed.len() >= 3 && name.contains(typed))
}

fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
    or: fn(&str, &str) -> bool,
) -> Option<&'a str> {
    // Long garbage is not a misspelling of anything, and the comparison is quadratic.
    if typed.len() > MAX_NAME_LEN {
        return None;
    }
    let typed = typed.to_lowercase();
    let near = known.into_iter().filter(|name| name.len() <= MAX_NAME_LEN).filter_map(|name| {
        let lower = name.to_lowercase();
        let distance = strsim::damerau_levenshtein(&typed, &lower);
        // A third of the word may be wrong: `heders` is `headers`, `cwd` is not `env`.
        let close = distance <= (lower.chars().count() / 3).max(1);
        (close || or(&typed, &lower)).then_some((distance, name))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

const MAX_NAME_LEN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        let known = ["command", "headers", "env", "cwd", "max_timeout"];
        assert_eq!(closest("comand", known), Some("command"));
        assert_eq!(closest("Header", known), Some("headers"));
        assert_eq!(closest("maxTimeout", known), Some("max_timeout"));
        assert_eq!(closest("cwd2", known), Some("cwd"));
        assert_eq!(closest("proxy", known), None);
        assert_eq!(closest("max", known), None);
        assert_eq!(closest("", known), None);
        assert_eq!(closest(&"command".repeat(50), known), None);
    }

    #[test]
    fn part_of_a_name_is_enough() {
        let known = ["search_files", "read_file", "echo"];
        assert_eq!(closest_name("ehco", known), Some("echo"));
        assert_eq!(closest_name("readfile", known), Some("read_file"));
        assert_eq!(closest_name("SEARCH", known), Some("search_files"));
        assert_eq!(closest_name("delete", known), None);
        assert_eq!(closest_name("", known), None);
        assert_eq!(closest_name(&"echo".repeat(100), known), None);
    }
}
