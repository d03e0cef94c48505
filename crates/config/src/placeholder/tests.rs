//! Tests of placeholders: what is filled, escaped, refused and listed.

use proptest::prelude::*;

use super::*;
use crate::environment::FixedEnvironment;

fn environment() -> FixedEnvironment {
    FixedEnvironment::default()
        .with_var("TOKEN", "t0k")
        .with_var("EMPTY", "")
        .with_var("TRICK", "${TOKEN}{env:TOKEN}")
        .with_var("HOME", "/home/me")
        .with_var("ProgramFiles(x86)", "C:\\P")
        .with_file("/etc/bowline/key", "from file\r\n\n")
        .with_file("/abs/key", "absolute")
        .with_file("/home/me/key", "at home")
}

fn expand(text: &str) -> Result<String, Vec<String>> {
    let env = environment();
    Filler::new(&env, Path::new("/etc/bowline/config.toml")).expand(text).map_err(|findings| {
        assert!(findings.iter().all(|f| f.kind == ProblemKind::Unresolved), "{findings:?}");
        findings.into_iter().map(|f| f.message).collect()
    })
}

#[test]
fn what_can_be_filled_is_filled() {
    for (text, filled) in [
        ("plain $ { } text", "plain $ { } text"),
        ("", ""),
        ("Bearer ${TOKEN}", "Bearer t0k"),
        ("{env:TOKEN}{env:TOKEN}", "t0kt0k"),
        ("${env:TOKEN}", "t0k"),
        ("${NONE:-a:-b}", "a:-b"),
        ("${NONE:-}", ""),
        ("{env:NONE:-d}", "d"),
        ("${TOKEN:-d}", "t0k"),
        ("${EMPTY:-d}", "d"),
        ("<${EMPTY}>", "<>"),
        ("${ProgramFiles(x86)}\\x", "C:\\P\\x"),
        ("{file:key}", "from file"),
        ("{file:./key}", "from file"),
        ("{file:/abs/key}", "absolute"),
        ("{file:~/key}", "at home"),
        ("$TOKEN", "$TOKEN"),
        ("é${TOKEN}é", "ét0ké"),
    ] {
        assert_eq!(expand(text), Ok(filled.to_owned()), "{text}");
    }
}

#[test]
fn escapes_stay_literal() {
    for (text, filled) in [
        ("$${TOKEN}", "${TOKEN}"),
        ("$${env:TOKEN}", "${env:TOKEN}"),
        ("$$${TOKEN}", "$${TOKEN}"),
        ("$${NONE", "${NONE"),
        ("{\"a\": {\"b\": 1}}", "{\"a\": {\"b\": 1}}"),
    ] {
        assert_eq!(expand(text), Ok(filled.to_owned()), "{text}");
    }
}

#[test]
fn a_value_is_not_read_again() {
    assert_eq!(expand("${TRICK}"), Ok("${TOKEN}{env:TOKEN}".to_owned()));
}

#[test]
fn what_cannot_be_filled_is_an_error() {
    let strange =
        "a placeholder that is not one of `${VAR}`, `${VAR:-default}`, `{env:VAR}` and `{file:path}`";
    for (text, message) in [
        ("${NONE}", "environment variable `NONE` is not set"),
        ("{env:NONE}", "environment variable `NONE` is not set"),
        ("${TOKEN", "a placeholder opened with `${` is not closed"),
        ("{env:TOKEN", "a placeholder opened with `{env:` is not closed"),
        ("{file:key", "a placeholder opened with `{file:` is not closed"),
        ("${}", strange),
        ("${1A}", strange),
        ("${A-hunter2}", strange),
        ("${A:?hunter2}", strange),
        ("${ TOKEN }", strange),
        ("${NONE:-${TOKEN}}", "the default of `NONE` has a placeholder in it"),
        ("${NONE:-{file:key}}", "the default of `NONE` has a placeholder in it"),
        ("{file: }", "`{file:}` names no file"),
        ("{file:gone}", "cannot read the file `gone`: no such file"),
        ("${input:key}", "`${input:…}` asks a person for the value, which only an editor can do"),
    ] {
        assert_eq!(expand(text), Err(vec![message.to_owned()]), "{text}");
    }
}

#[test]
fn every_failure_of_a_value_is_reported() {
    assert_eq!(
        expand("${A} ${TOKEN} {env:B}"),
        Err(vec![
            "environment variable `A` is not set".to_owned(),
            "environment variable `B` is not set".to_owned(),
        ])
    );
}

#[test]
fn placeholders_are_found_where_they_are() {
    let text = "a $${NO} ${A}{env:B:-c}{file:k}${input:x} ${";
    let found = find_placeholders(text);
    let found: Vec<_> =
        found.iter().map(|found| (&text[found.range.clone()], found.variable, found.has_default)).collect();
    assert_eq!(
        found,
        [
            ("${A}", Some("A"), false),
            ("{env:B:-c}", Some("B"), true),
            ("{file:k}", None, false),
            ("${input:x}", None, false),
        ]
    );
    assert_eq!(escape_placeholders("a{env:B}"), None);
    assert_eq!(escape_placeholders("${{file:x}"), None);
}

/// Pieces of text with their expansion; `None` is a failure.
fn piece() -> impl Strategy<Value = (String, Option<String>)> {
    prop_oneof![
        "[a-z :}é-]{0,6}".prop_map(|text| (text.clone(), Some(text))),
        Just(("$${".to_owned(), Some("${".to_owned()))),
        Just(("${TOKEN}".to_owned(), Some("t0k".to_owned()))),
        Just(("{env:TRICK}".to_owned(), Some("${TOKEN}{env:TOKEN}".to_owned()))),
        Just(("{file:key}".to_owned(), Some("from file".to_owned()))),
        "[a-z ]{0,6}".prop_map(|text| (format!("${{NONE:-{text}}}"), Some(text))),
        Just(("${NONE}".to_owned(), None)),
        Just(("{file:gone}".to_owned(), None)),
    ]
}

proptest! {
    #[test]
    fn pieces_fill_independently(pieces in proptest::collection::vec(piece(), 0..12)) {
        let text: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
        let filled: Option<String> = pieces.into_iter().map(|(_, filled)| filled).collect();
        prop_assert_eq!(expand(&text).ok(), filled);
    }

    /// In an empty environment, success means that there was nothing to fill: the text comes back
    /// unchanged but for its escapes.
    #[test]
    fn nothing_is_left_unresolved_silently(text in "(\\PC|[$]|[{]|[}]|[$][{]|[{]env:|[{]file:|A){0,24}") {
        prop_assume!(!text.contains(":-"));
        let env = FixedEnvironment::default();
        let unescaped = text.replace("$${", "\0");
        let has_placeholder = ["${", "{env:", "{file:"].iter().any(|o| unescaped.contains(o));
        let filled = Filler::new(&env, Path::new("x.toml")).expand(&text);
        prop_assert_eq!(filled.is_err(), has_placeholder);
        if let Ok(filled) = filled {
            prop_assert_eq!(filled, text.replace("$${", "${"));
        }
    }

    /// What is escaped is filled with itself, whatever it looks like.
    #[test]
    fn escaped_text_is_taken_literally(text in "(\\PC|[$]|[{]|[}]|[$][{]|[{]env:|[{]file:|A){0,24}") {
        if let Some(escaped) = escape_placeholders(&text) {
            prop_assert_eq!(find_placeholders(&escaped), []);
            prop_assert_eq!(expand(&escaped), Ok(text));
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = expand(&text);
    }
}

#[test]
fn references_are_found_without_reading_anything() {
    use Reference::{File, Variable};
    for (text, found) in [
        ("plain $TOKEN", vec![]),
        ("a ${TOKEN} b {env:HOME}", vec![Variable("TOKEN"), Variable("HOME")]),
        ("${env:A:-{file:x}}", vec![Variable("A")]),
        ("{file: ~/.ssh/id }${B:-c}", vec![File("~/.ssh/id"), Variable("B")]),
        ("$${TOKEN}${TRICK}", vec![Variable("TRICK")]),
        ("${input:x}${not closed", vec![]),
    ] {
        assert_eq!(find_references(text), found, "{text}");
    }
}

proptest! {
    /// Everything that is read from the environment is listed by `references`.
    #[test]
    fn nothing_is_asked_for_that_was_not_told(text in r"(\$|\$\{|\{env:|\{file:|env:|\}|:-|[A-C]|x| ){0,20}") {
        struct Listening(std::cell::RefCell<Vec<(bool, String)>>);
        impl Environment for Listening {
            fn var(&self, name: &str) -> Option<String> {
                self.0.borrow_mut().push((false, name.to_owned()));
                None
            }
            fn read_file(&self, path: &Path) -> Result<String, String> {
                self.0.borrow_mut().push((true, path.display().to_string()));
                Err("no such file".to_owned())
            }
        }
        let env = Listening(std::cell::RefCell::default());
        let _ = Filler::new(&env, Path::new("config.toml")).expand(&text);
        let told: Vec<(bool, String)> = find_references(&text).into_iter().map(|it| match it {
            Reference::Variable(name) => (false, name.to_owned()),
            Reference::File(path) => (true, path.to_owned()),
        }).collect();
        for asked in env.0.into_inner() {
            prop_assert!(told.contains(&asked), "{asked:?} of {text:?}");
        }
    }
}
