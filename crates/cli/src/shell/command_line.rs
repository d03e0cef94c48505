//! Splits a command line into words like a shell, but without expansion.

/// Splits the line into words. The last one is at the cursor, and may be empty.
pub(super) fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word = String::new();
    let mut quote = None;
    let mut chars = line.chars();
    let mut begun = false;
    while let Some(c) = chars.next() {
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
            (None | Some('"'), '\\') => word.extend(chars.next()),
            (_, c) => word.push(c),
        }
        begun = true;
    }
    words.push(word);
    words
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
            assert_eq!(split_words(line), expected, "{line:?}");
        }
    }
}
