//! Finds the tests of a source file, and the requirements that each of them names.
//!
//! A test names a requirement in its own name, in the comments above it, or in a comment inside its
//! body. An id at the top of a file, or at a helper function, is no claim of a test.
//!
//! The source is read line by line, as rustfmt writes it: an item ends with the first brace below
//! its own column.

use std::collections::BTreeSet;

use super::id::{self, RequirementId};

/// One test, with the requirements that it claims to prove.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// `crate::module::name`, where the crate is the name of its folder.
    pub(super) name: String,
    pub(super) ids: BTreeSet<RequirementId>,
}

/// Returns the tests of the file at `path`, which is relative to the folder of crates.
pub(super) fn tests(path: &str, text: &str, is_group: impl Fn(&str) -> bool) -> Vec<Test> {
    let lines: Vec<&str> = text.lines().collect();
    let checks = names_given_to_test_macros(&lines);
    // The modules with a body around the current line, and where each of them ends.
    let mut modules: Vec<(&str, usize)> = Vec::new();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        modules.retain(|(_, end)| *end > at);
        if let Some(name) = item_name(line, "mod").filter(|_| line.ends_with('{')) {
            modules.push((name, item_end(&lines, at)));
        }
        let Some(name) = item_name(line, "fn") else { continue };
        let head = head_start(&lines, at);
        if !(lines[head..at].iter().any(|line| is_test_attribute(line)) || checks.contains(name)) {
            continue;
        }
        let mut ids: BTreeSet<RequirementId> = id::ids_in_name(name, &is_group).into_iter().collect();
        let all = &lines[head..=item_end(&lines, at)];
        ids.extend(all.iter().flat_map(|line| id::ids_in_comment(comment_in(line))));
        let inner = modules.iter().map(|(name, _)| *name);
        let parts: Vec<&str> = file_modules(path).into_iter().chain(inner).chain([name]).collect();
        found.push(Test { name: parts.join("::"), ids });
    }
    found
}

/// Returns the comment at the end of a line, or nothing.
pub(super) fn comment_in(line: &str) -> &str {
    // Two slashes behind an odd number of quotes are part of a string.
    let starts = line.match_indices("//").map(|(at, _)| at);
    let mut comments = starts.filter(|at| line[..*at].matches('"').count().is_multiple_of(2));
    comments.next().map_or("", |at| &line[at..])
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

/// Returns the name of the item that begins on this line, if it is one of this keyword.
fn item_name<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let (before, after) = line.split_once(keyword)?;
    let qualifies = |word: &str| word.starts_with("pub") || ["async", "const", "unsafe"].contains(&word);
    let name = after.strip_prefix(' ')?;
    let name = &name[..name.find(|c| !is_word(c)).unwrap_or(name.len())];
    (!name.is_empty() && before.split_whitespace().all(qualifies)).then_some(name)
}

/// Returns the first line of the comments and attributes right above the item at `at`.
fn head_start(lines: &[&str], at: usize) -> usize {
    let mut start = at;
    while let Some(line) = start.checked_sub(1).map(|above| lines[above].trim_start()) {
        if line.starts_with("//") || line.starts_with("#[") {
            start -= 1;
        } else if line == ")]" {
            // The end of an attribute of several lines.
            start = (0..start).rev().find(|above| lines[*above].trim_start().starts_with("#[")).unwrap_or(0);
        } else {
            break;
        }
    }
    start
}

/// Returns the last line of the item that begins at `at`.
fn item_end(lines: &[&str], at: usize) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let closes = |line: &str| indent(line) == indent(lines[at]) && line.trim_start().starts_with(['}', ')']);
    if lines[at].ends_with(['}', ';']) {
        return at;
    }
    let mut below = at + 1..lines.len();
    below.find(|at| closes(lines[*at]) && !lines[*at].ends_with('{')).unwrap_or(lines.len() - 1)
}

/// Whether the line has `#[test]`, or that of a runtime, such as `#[tokio::test(…)]`.
fn is_test_attribute(line: &str) -> bool {
    let code = line.trim_start();
    !code.starts_with("//")
        && ["[test]", "::test]", "::test("].iter().any(|attribute| code.contains(attribute))
}

/// Returns the functions that a macro of this file turns into tests, by naming them in its call.
fn names_given_to_test_macros<'a>(lines: &[&'a str]) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = line.trim_start().strip_prefix("macro_rules! ") else { continue };
        let name = name.trim_end_matches(" {");
        if !lines[at..=item_end(lines, at)].iter().any(|line| is_test_attribute(line)) {
            continue;
        }
        let is_call =
            |line: &&str| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with('!'));
        for call in (0..lines.len()).filter(|at| is_call(&lines[*at])) {
            let inside = lines[call..=item_end(lines, call)].iter();
            names.extend(inside.flat_map(|line| line.split(|c| !is_word(c))).filter(|word| !word.is_empty()));
        }
    }
    names
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
            one("/// HT-01\n#[test]\n// HT-02\nfn x() { // HT-03\n    // HT-05\n}"),
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
        let text = "macro_rules! both {\n    ($($c:ident),*) => { $(#[tokio::test]\n    async fn $c() {})* };\n}\n\
                    both!(one, two);\n/// HT-01\nasync fn one() {}\nasync fn other() {} // HT-02\n";
        assert_eq!(one(text), "HT-01");
        let text =
            "macro_rules! show {\n    ($c:ident) => { $c() };\n}\nshow!(one);\n/// HT-01\nfn one() {}\n";
        assert!(read("client/src/lib.rs", text).is_empty());
    }

    #[test]
    fn a_test_is_called_by_its_crate_and_modules() {
        let name = |path: &str, text: &str| read(path, text).remove(0).0;
        let inline =
            "mod other {\n    fn a() {}\n}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn y() {}\n}";
        assert_eq!(name("proto/src/calls.rs", inline), "proto::calls::tests::y");
        let plain = "#[test]\nfn y() {}";
        assert_eq!(name("proto/src/lib.rs", plain), "proto::y");
        assert_eq!(name("proto/src/era.rs", plain), "proto::era::y");
        assert_eq!(name("client/tests/it/main.rs", plain), "client::it::y");
        assert_eq!(name("client/tests/it/tasks/asking.rs", plain), "client::it::tasks::asking::y");
        assert_eq!(name("client/tests/interop_rmcp.rs", plain), "client::interop_rmcp::y");
    }
}
