//! Splits a command line into words like a shell, but without expansion.

/// The words of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SplitLine {
    /// The words without their quotes. The last one is at the end of the line, and may be empty.
    pub(crate) words: Vec<String>,
    /// Where the last word begins in the line, in bytes.
    pub(crate) last_word_at: usize,
    /// Whether a quote is not closed.
    pub(crate) is_quote_open: bool,
}

/// Splits the line into words. The last one is at the cursor, and may be empty.
pub(crate) fn split_words(line: &str) -> SplitLine {
    let mut words = vec![];
    let mut word = String::new();
    let mut quote = None;
    let mut chars = line.char_indices();
    let mut begun = false;
    let mut word_at = line.len();
    while let Some((at, c)) = chars.next() {
        if !begun {
            word_at = at;
        }
        match (quote, c) {
            (None, c) if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
                continue;
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => word.extend(chars.next().map(|(_, c)| c)),
            (_, c) => word.push(c),
        }
        begun = true;
    }
    words.push(word);
    let last_word_at = if begun { word_at } else { line.len() };
    SplitLine { words, last_word_at, is_quote_open: quote.is_some() }
}

#[cfg(test)]
mod tests {
    use super::split_words;

    #[test]
    fn lines_fall_into_words() {
        for (line, expected) in [
            ("bowline ca", &["bowline", "ca"][..]),
            ("bowline  call ", &["bowline", "call", ""]),
            (
                "bowline call s t a='x y' b=\"it's\" c=\\ d",
                &["bowline", "call", "s", "t", "a=x y", "b=it's", "c= d"],
            ),
            ("bowline call 'half o", &["bowline", "call", "half o"]),
            ("bowline ''", &["bowline", ""]),
            ("bowline '' ", &["bowline", "", ""]),
            ("", &[""]),
        ] {
            assert_eq!(split_words(line).words, expected, "{line:?}");
        }
    }

    #[test]
    fn the_last_word_is_found_in_the_line() {
        for (line, at, is_open) in [
            ("", 0, false),
            ("a b", 2, false),
            ("a ", 2, false),
            ("a 'b c", 2, true),
            ("ä b='x y'", 3, false),
        ] {
            let split = split_words(line);
            assert_eq!((split.last_word_at, split.is_quote_open), (at, is_open), "{line:?}");
        }
    }
}
