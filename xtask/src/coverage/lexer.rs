//! Reads Rust source for the checks: which bytes are code, and which of those are only built for
//! tests.
//!
//! This is a lexer for comments, literals and braces, not a parser. It is exact for
//! rustfmt-formatted source, and in doubt treats code as production code.

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// One `.rs` file.
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Byte ranges of `text` that are only compiled for tests.
    tests: Vec<Range<usize>>,
}

impl SourceFile {
    /// Loads every `.rs` file below `dir`, recognizing test modules in files of their own.
    pub(crate) fn load(workspace: &Workspace, dir: &str) -> Result<Vec<Self>> {
        let mut files = Vec::new();
        let mut test_modules = BTreeSet::new();
        for path in workspace.files(dir)? {
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("reading {}", workspace.show(&path)))?;
                let found = find_test_items(&blank_literals(&text));
                test_modules.extend(found.modules.iter().map(|name| module_base(&path, name)));
                files.push((path, text, found.ranges));
            }
        }
        let whole = |path: &Path| {
            is_in_test_folder(path.strip_prefix(workspace.root()).unwrap_or(path))
                || path.ancestors().any(|part| test_modules.contains(&part.with_extension("")))
        };
        let build = |(path, text, ranges): (PathBuf, String, Vec<Range<usize>>)| {
            let all = 0..text.len();
            let tests = if whole(&path) { vec![all] } else { ranges };
            Self { path, text, tests }
        };
        Ok(files.into_iter().map(build).collect())
    }

    /// Counts the lines that are not inside a test item.
    pub(crate) fn production_lines(&self) -> usize {
        let mut start = 0;
        let is_production = |line: &&str| {
            let is_test = self.tests.iter().any(|range| range.contains(&start));
            start += line.len();
            !is_test
        };
        self.text.split_inclusive('\n').filter(is_production).count()
    }
}

/// Returns the line, from 1, of byte `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn is_in_test_folder(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// Returns the path of `mod name;` in `file` without `.rs`: that of the file, or the folder.
fn module_base(file: &Path, name: &str) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new(""));
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") | None => folder.join(name),
        Some(stem) => folder.join(stem).join(name),
    }
}

/// Blanks comments, string and character literals, keeping length and line ends.
pub(crate) fn blank_literals(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for range in find_literals(text.as_bytes()) {
        wipe(&mut out[range]);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Blanks everything but comments, keeping length and line ends.
pub(crate) fn blank_all_but_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    for comment in find_literals(bytes).into_iter().filter(|range| bytes[range.start] == b'/') {
        wipe(&mut out[at..comment.start]);
        at = comment.end;
    }
    wipe(&mut out[at..]);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the ranges of comments, strings and characters, in order.
fn find_literals(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        at = match literal_end(bytes, at) {
            Some(end) => {
                found.push(at..end);
                end
            }
            // Skips whole words, so that the `r` of `for"` is not taken for a raw string.
            None if is_word(bytes[at]) => word_end(bytes, at),
            None => at + 1,
        };
    }
    found
}

/// Returns the byte after the end of a comment or literal that starts at `at`, if one does.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => Some(find(bytes, at, b"\n").unwrap_or(bytes.len())),
        [b'/', b'*', ..] => Some(block_comment_end(bytes, at)),
        [b'"', ..] => Some(quoted_end(bytes, at + 1, b'"')),
        [b'\'', b'\\', ..] => Some(quoted_end(bytes, at + 1, b'\'')),
        // A character literal is closed right behind it; a lifetime is not.
        [b'\'', first, ..] => {
            let width = utf8_width(*first);
            (rest.get(1 + width) == Some(&b'\'')).then_some(at + width + 2)
        }
        [first, ..] if is_word(*first) => {
            let prefix = word_end(bytes, at);
            match &bytes[at..prefix] {
                b"b" | b"c" if bytes.get(prefix) == Some(&b'"') => Some(quoted_end(bytes, prefix + 1, b'"')),
                b"b" if bytes.get(prefix) == Some(&b'\'') => Some(quoted_end(bytes, prefix + 1, b'\'')),
                b"r" | b"br" | b"cr" => raw_string_end(bytes, prefix),
                _ => None,
            }
        }
        _ => None,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn quoted_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'\\' => 2,
            _ if byte == quote => return at + 1,
            _ => 1,
        };
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], hashes_start: usize) -> Option<usize> {
    let hashes = bytes[hashes_start..].iter().take_while(|&&byte| byte == b'#').count();
    let open = hashes_start + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    Some(find(bytes, open + 1, &close).map_or(bytes.len(), |end| end + close.len()))
}

struct TestItems {
    ranges: Vec<Range<usize>>,
    /// Names of test modules kept in files of their own.
    modules: Vec<String>,
}

/// Finds the items under `#[cfg(test)]` in source whose literals are blanked.
fn find_test_items(code: &str) -> TestItems {
    let bytes = code.as_bytes();
    let mut items = TestItems { ranges: Vec::new(), modules: Vec::new() };
    let mut at = 0;
    while let Some(start) = find(bytes, at, b"#") {
        at = start + 1;
        let inner = bytes.get(at) == Some(&b'!');
        let open = if inner { at + 1 } else { at };
        if bytes.get(open) != Some(&b'[') {
            continue;
        }
        let end = group_end(bytes, open);
        if !is_cfg_test(&code[open..end]) {
            at = end;
            continue;
        }
        if inner {
            items.ranges.push(start..code.len());
            break;
        }
        let item = skip_attributes(bytes, end);
        at = item_end(bytes, item);
        items.ranges.push(start..at);
        items.modules.extend(file_module(&code[item..at]));
    }
    items
}

fn is_cfg_test(attribute: &str) -> bool {
    let dense: String = attribute.split_whitespace().collect();
    dense == "[cfg(test)]" || dense.starts_with("[cfg(all(test,")
}

/// Returns the name in `mod name;`, if that is what the item is.
fn file_module(item: &str) -> Option<String> {
    let (head, name) = item.strip_suffix(';')?.rsplit_once("mod ")?;
    let visibility = head.trim();
    (visibility.is_empty() || visibility.starts_with("pub")).then(|| name.trim().to_owned())
}

fn skip_attributes(bytes: &[u8], mut at: usize) -> usize {
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        match bytes.get(at..at + 2) {
            Some(b"#[") => at = group_end(bytes, at + 1),
            _ => return at,
        }
    }
}

/// Returns the end of the item at `at`: behind its `;` or behind its body.
pub(crate) fn item_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b';' => return at + 1,
            b'{' => return group_end(bytes, at),
            b'(' | b'[' => at = group_end(bytes, at),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the byte behind the bracket that closes the one at `open`.
pub(crate) fn group_end(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

fn wipe(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|&&byte| is_word(byte)).count()
}

fn utf8_width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked_in_place() {
        let text =
            "let a = \"std::fs\"; // std::net\nlet b = r#\"x\"y\"#; /* a /* b */ c */ z('\"', 'é', b'\\'');";
        let code = blank_literals(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.lines().count(), 2);
        let dense: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(dense.join(" "), "let a = ; let b = ; z( , , );");
    }

    #[test]
    fn comments_can_be_had_alone() {
        let text = "/// one\nlet a = \"// two\"; // three\n/* four */ let b = '\"'; // é";
        let comments = blank_all_but_comments(text);
        assert_eq!(comments.len(), text.len());
        let dense: Vec<&str> = comments.split_whitespace().collect();
        assert_eq!(dense.join(" "), "/// one // three /* four */ // é");
        assert_eq!(comments.lines().count(), 3);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay_code() {
        let text = "fn f<'a>(r#type: &'a str) -> &'static str { for_r }";
        assert_eq!(blank_literals(text), text);
    }

    #[test]
    fn test_items_end_with_their_body() {
        let code = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { {} } }\nfn c() {}";
        let items = find_test_items(code);
        let [tests] = &items.ranges[..] else { panic!("{:?}", items.ranges) };
        assert_eq!(&code[tests.clone()], "#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { {} } }");
    }

    #[test]
    fn a_feature_that_may_ship_is_not_a_test() {
        assert!(find_test_items("#[cfg(any(test, feature = x))] mod a {}").ranges.is_empty());
        assert!(find_test_items("#[cfg(not(test))] mod a {}").ranges.is_empty());
        assert_eq!(find_test_items("#[cfg(all(test, unix))] mod a {}").ranges.len(), 1);
    }

    #[test]
    fn test_modules_in_files_are_named_by_their_parent() {
        assert_eq!(find_test_items("#[cfg(test)]\nmod props;").modules, ["props"]);
        assert_eq!(module_base(Path::new("src/lib.rs"), "props"), Path::new("src/props"));
        assert_eq!(module_base(Path::new("src/calls.rs"), "props"), Path::new("src/calls/props"));
    }
}
