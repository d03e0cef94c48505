//! Finds the paths that Rust code names: `std::net::TcpStream`, also if a `use` spells it
//! `std::{net::{TcpStream}}`.

/// A path and the byte it starts at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedPath<'a> {
    pub(super) at: usize,
    pub(super) segments: Vec<&'a str>,
}

/// Returns every path in `code`, whose comments and literals are blanked.
pub(super) fn named_paths(code: &str) -> Vec<NamedPath<'_>> {
    let mut reader = Reader { tokens: tokens(code), at: 0, found: Vec::new() };
    while let Some(&(at, token)) = reader.tokens.get(reader.at) {
        reader.at += 1;
        match token {
            "use" => reader.use_tree(&[]),
            _ if is_name(token) => {
                let segments = reader.rest_of_path(token);
                reader.found.push(NamedPath { at, segments });
            }
            _ => {}
        }
    }
    reader.found
}

struct Reader<'a> {
    tokens: Vec<(usize, &'a str)>,
    at: usize,
    found: Vec<NamedPath<'a>>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|(_, token)| *token)
    }

    /// Reads `::name` as often as it follows.
    fn rest_of_path(&mut self, first: &'a str) -> Vec<&'a str> {
        let mut segments = vec![first];
        while let [(_, "::"), (_, name), ..] = self.tokens[self.at..]
            && is_name(name)
        {
            segments.push(name);
            self.at += 2;
        }
        segments
    }

    /// Reads one tree of a `use`, up to but not including the `,`, `}` or `;` that ends it.
    fn use_tree(&mut self, prefix: &[&'a str]) {
        let mut segments = prefix.to_vec();
        while let Some(&(at, token)) = self.tokens.get(self.at) {
            match token {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while self.peek().is_some_and(|token| token != "}" && token != ";") {
                        if self.peek() == Some(",") {
                            self.at += 1;
                        } else {
                            self.use_tree(&segments);
                        }
                    }
                    // Skips the closing brace, unless the source is cut short.
                    self.at += usize::from(self.peek() == Some("}"));
                    return;
                }
                "as" => self.at += 2,
                _ if is_name(token) || token == "*" => {
                    self.at += 1;
                    segments.push(token);
                    if self.peek() != Some("::") {
                        self.found.push(NamedPath { at, segments: segments.clone() });
                    }
                }
                "," | "}" | ";" => return,
                // `use<'a>` in a type bound is no import.
                _ => {
                    self.at += 1;
                    return;
                }
            }
        }
    }
}

/// Splits code into words, `::`, and single other characters.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let word = bytes[at..].iter().take_while(|byte| is_word_byte(**byte)).count();
        let width = match () {
            () if word > 0 => word,
            () if bytes[at..].starts_with(b"::") => 2,
            () => 1,
        };
        if !bytes[at].is_ascii_whitespace() {
            found.push((at, &code[at..at + width]));
        }
        at += width;
    }
    found
}

fn is_word_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: &str) -> Vec<String> {
        named_paths(code).iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn groups_are_spelled_out() {
        let found = shown("use std::{fmt, net::{TcpStream, self}, time::Instant as Clock};");
        assert_eq!(found, ["std::fmt", "std::net::TcpStream", "std::net::self", "std::time::Instant"]);
    }

    #[test]
    fn paths_in_expressions_are_found_where_they_start() {
        let code = "let a = std::time::Instant::now();\nx.y::<u8>(*z);";
        let found = named_paths(code);
        assert_eq!(found[2], NamedPath { at: 8, segments: vec!["std", "time", "Instant", "now"] });
        assert!(shown(code).contains(&"z".to_owned()));
    }

    #[test]
    fn cut_source_ends_the_scan() {
        assert_eq!(shown("use std::{fs, "), ["std::fs"]);
        assert_eq!(shown("use std::{fs; std::net::X"), ["std::fs", "std::net::X"]);
        assert_eq!(shown("fn f() -> impl Sized + use<T> {}"), ["fn", "f", "impl", "Sized", "T"]);
    }
}
