//! Finds the tests of a source file, and the requirements that each of them names.
//!
//! A test names a requirement in its own name, in the comments above it, or in a comment inside its
//! body. An id at the top of a file, or at a helper function, is no claim of a test.

use std::{collections::BTreeSet, ops::Range};

use super::{
    id::{self, RequirementId},
    lexer::{blank_all_but_comments, blank_literals, group_end, item_end},
};

/// One test, with the requirements that it claims to prove.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// `crate::module::name`, where the crate is the name of its folder.
    pub(super) name: String,
    pub(super) ids: BTreeSet<RequirementId>,
}

/// Returns the tests of the file at `path`, which is relative to the folder of crates.
pub(super) fn tests(path: &str, text: &str, is_group: impl Fn(&str) -> bool) -> Vec<Test> {
    let code = blank_literals(text);
    let comments = blank_all_but_comments(text);
    let heads = ItemHeads::new(&code, &comments);
    let modules = inline_modules(&code);
    let checks = names_given_to_test_macros(&code);
    let mut found = Vec::new();
    for at in find_words(&code, "fn") {
        let name = word_at(&code, at + "fn ".len());
        let head = heads.start(at);
        if name.is_empty() || !(is_test_attribute(&code[head..at]) || checks.contains(name)) {
            continue;
        }
        let end = item_end(code.as_bytes(), at);
        let mut ids: BTreeSet<RequirementId> = id::ids_in_name(name, &is_group).into_iter().collect();
        ids.extend(id::ids_in_comment(&comments[head..end]).into_iter().map(|(_, id)| id));
        let inner = modules.iter().filter(|(range, _)| range.contains(&at)).map(|(_, name)| *name);
        let parts: Vec<&str> = file_modules(path).into_iter().chain(inner).chain([name]).collect();
        found.push(Test { name: parts.join("::"), ids });
    }
    found
}

/// Returns the crate and the modules of a file.
fn file_modules(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if matches!(parts.last(), Some(&("lib" | "main" | "mod"))) {
        parts.pop();
    }
    // Skips the folder of sources or of tests, right below that of the crate.
    if parts.len() > 1 {
        parts.remove(1);
    }
    parts
}

/// The lines that can be part of an item's head: attributes, and comments on lines of their own.
struct ItemHeads {
    /// The start of each line, and whether it can be part of a head.
    lines: Vec<(usize, bool)>,
}

impl ItemHeads {
    fn new(code: &str, comments: &str) -> Self {
        let attributes = find_attributes(code);
        let mut lines = Vec::new();
        let mut start = 0;
        for line in code.split_inclusive('\n') {
            let first = start + (line.len() - line.trim_start().len());
            let is_blank = line.trim().is_empty();
            let is_comment = is_blank && !comments[start..start + line.len()].trim().is_empty();
            let is_attribute = !is_blank && attributes.iter().any(|range| range.contains(&first));
            lines.push((start, is_comment || is_attribute));
            start += line.len();
        }
        Self { lines }
    }

    /// Returns where the head of the item at `at` begins: the line of the first comment or
    /// attribute that touches it.
    fn start(&self, at: usize) -> usize {
        let own = self.lines.partition_point(|(start, _)| *start <= at) - 1;
        let above = self.lines[..own].iter().rev().take_while(|(_, is_head)| *is_head).count();
        self.lines[own - above].0
    }
}

fn find_attributes(code: &str) -> Vec<Range<usize>> {
    code.match_indices("#[").map(|(at, _)| at..group_end(code.as_bytes(), at + 1)).collect()
}

/// Whether the head has `#[test]`, or that of a runtime, such as `#[tokio::test(…)]`.
fn is_test_attribute(head: &str) -> bool {
    let dense: String = head.split_whitespace().collect();
    ["[test]", "::test]", "::test("].iter().any(|attribute| dense.contains(attribute))
}

/// Returns the modules with a body in this file: the range of each, and its name.
fn inline_modules(code: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    for at in find_words(code, "mod") {
        let name = word_at(code, at + "mod ".len());
        let end = item_end(code.as_bytes(), at);
        if !name.is_empty() && code[..end].ends_with('}') {
            found.push((at..end, name));
        }
    }
    found
}

/// Returns the functions that a macro of this file turns into tests, by naming them in its call.
fn names_given_to_test_macros(code: &str) -> BTreeSet<&str> {
    let bytes = code.as_bytes();
    let mut names = BTreeSet::new();
    for (at, keyword) in code.match_indices("macro_rules!") {
        let name = word_at(code, at + keyword.len() + 1);
        let end = item_end(bytes, at);
        if name.is_empty() || !is_test_attribute(&code[at..end]) {
            continue;
        }
        for call in find_words(code, name).filter(|call| code[call + name.len()..].starts_with('!')) {
            let Some(open) = code[call..].find(['(', '[', '{']) else { continue };
            let inside = &code[call + open..group_end(bytes, call + open)];
            names.extend(inside.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()));
        }
    }
    names
}

/// Returns the offsets at which `word` occurs as a whole word.
fn find_words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let alone =
        move |at: &usize| !code[..*at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word);
    code.match_indices(word).map(|(at, _)| at).filter(alone)
}

/// Returns the word that begins at `at`, if one does.
fn word_at(code: &str, at: usize) -> &str {
    let rest = code.get(at..).unwrap_or_default();
    &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, text: &str) -> Vec<(String, String)> {
        let shown = |test: Test| {
            let ids: Vec<String> = test.ids.iter().map(RequirementId::to_string).collect();
            (test.name, ids.join(" "))
        };
        tests(path, text, |group| ["HT", "HL"].contains(&group)).into_iter().map(shown).collect()
    }

    fn one(text: &str) -> String {
        let mut found = read("client/src/lib.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).1
    }

    #[test]
    fn a_test_claims_by_its_name_its_head_and_its_body() {
        assert_eq!(one("#[test]\nfn ht_04_works() {}"), "HT-04");
        assert_eq!(
            one("/// HT-01\n#[test]\n// HT-02\nfn x() { // HT-03\n  /* HT-05 */ }"),
            "HT-01 HT-02 HT-03 HT-05"
        );
        assert_eq!(
            one("#[tokio::test(\n    start_paused = true,\n)]\nasync fn hl_02_hl_03() { a(); }"),
            "HL-02 HL-03"
        );
        assert_eq!(one("// HT-01\n#[tokio::test]\n#[cfg(\n    unix\n)]\nasync fn x() {}"), "HT-01");
    }

    #[test]
    fn what_only_stands_nearby_is_no_claim() {
        assert_eq!(one("//! HT-01\n\n// HT-02\n\n#[test]\nfn x() {}\n// HT-03"), "");
        assert_eq!(
            one("fn helper() { // HT-01\n}\n#[test]\nfn x() { helper() }\n// HT-02\nfn other() {}"),
            ""
        );
        assert_eq!(
            one("#[test]\nfn x() { let a = \"HT-01\"; let b = \"// HT-02\"; let c = '{'; }\n// HT-03"),
            ""
        );
        assert_eq!(one("const A: u8 = 1; // HT-01\n#[test]\nfn x() {}"), "");
    }

    #[test]
    fn functions_without_the_attribute_are_no_tests() {
        assert!(
            read("client/src/lib.rs", "// HT-01\n#[cfg(test)]\nfn ht_04_x() {}\ntype F = fn (u8);")
                .is_empty()
        );
    }

    #[test]
    fn tests_inside_macros_and_made_by_them_are_found() {
        let text = "proptest! {\n    // HT-01\n    #[test]\n    fn x(a in 0..3) { b(a) }\n}";
        assert_eq!(one(text), "HT-01");
        let text = "macro_rules! both { ($($c:ident),*) => { $(#[tokio::test]\n async fn $c() {})* } }\n\
                    both!(one, two);\n/// HT-01\nasync fn one() {}\nasync fn other() {} // HT-02\n";
        assert_eq!(one(text), "HT-01");
        let text = "macro_rules! show { ($c:ident) => { $c() } }\nshow!(one);\n/// HT-01\nfn one() {}\n";
        assert!(read("client/src/lib.rs", text).is_empty());
    }

    #[test]
    fn a_test_is_called_by_its_crate_and_modules() {
        let name = |path: &str, text: &str| read(path, text).remove(0).0;
        let inline = "mod other { fn a() {} }\n#[cfg(test)]\nmod tests { use x; #[test] fn y() {} }";
        assert_eq!(name("proto/src/calls.rs", inline), "proto::calls::tests::y");
        let plain = "#[test]\nfn y() {}";
        assert_eq!(name("proto/src/lib.rs", plain), "proto::y");
        assert_eq!(name("proto/src/era.rs", plain), "proto::era::y");
        assert_eq!(name("client/tests/it/main.rs", plain), "client::it::y");
        assert_eq!(name("client/tests/it/tasks/asking.rs", plain), "client::it::tasks::asking::y");
        assert_eq!(name("client/tests/interop_rmcp.rs", plain), "client::interop_rmcp::y");
    }
}
