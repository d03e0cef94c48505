//! Matches names against patterns with `*`, which stands for any run of characters, including `/`.

/// Whether the whole of `name` fits `pattern`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(head) else {
        return false;
    };
    // The star may match any number of characters; try each cut, shortest first.
    let mut cuts = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    cuts.any(|at| matches(rest, &name[at..]))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn star_spans_any_run() {
        assert!(matches("auth/*", "auth/metadata-default"));
        assert!(matches("*", ""));
        assert!(matches("*", "auth/dpop"));
        assert!(matches("sep-*-verify-*", "sep-2640-client-verify-size"));
        assert!(matches("a*b", "ab"));
    }

    #[test]
    fn the_whole_name_must_fit() {
        assert!(!matches("auth/*", "unauth/x"));
        assert!(!matches("initialize", "initialize-2"));
        assert!(!matches("a*b", "abc"));
        assert!(!matches("", "x"));
    }
}
