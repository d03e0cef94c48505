//! Tests dialogs without a terminal: keys in, frames and answers out.

use bowline::Json;
use bowline::types::{ElicitResult, Elicitation, Form};
use serde_json::{Value, json};

use super::form::FormDialog;
use super::frame::TerminalSize;
use super::key::Key;
use super::prepared_answers::PreparedAnswers;
use super::sampling_approval::{RequestDecision, RequestDialog, result_dialog};
use super::terminal::Dialog;

const ROOM: TerminalSize = TerminalSize { columns: 60, rows: 20 };

/// Builds a form from properties as JSON text, which keeps their order.
fn form(properties: &str, required: &[&str]) -> Form {
    let required = json!(required);
    let schema = format!(r#"{{"type":"object","properties":{{{properties}}},"required":{required}}}"#);
    let params = format!(r#"{{"message":"m","requestedSchema":{schema}}}"#);
    match Elicitation::decode(&Json::parse(params).unwrap()).unwrap() {
        Elicitation::Form(form) => form,
        other => panic!("{other:?}"),
    }
}

/// Every shape that EL-05 names.
fn choices() -> Form {
    let fields = r#"
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "named": {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]},
        "many": {"type": "array", "items": {"enum": ["p", "q", "s"]}, "minItems": 1, "maxItems": 2},
        "some": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}}"#;
    form(fields, &["plain", "titled", "named", "many", "some"])
}

fn keys(dialog: &mut impl Dialog<Output = ElicitResult>, keys: &[Key]) -> Option<ElicitResult> {
    keys.iter().find_map(|key| dialog.handle_key(key))
}

fn typed(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).chain([Key::Enter]).collect()
}

fn screen<D: Dialog>(dialog: &D) -> String {
    let rows = dialog.draw(ROOM).rows;
    rows.iter().map(|row| row.to_plain(ROOM.columns)).collect::<Vec<_>>().join("\n")
}

fn content(answer: Option<ElicitResult>) -> Value {
    match answer {
        Some(ElicitResult::Accept(Some(content))) => content.decode().unwrap(),
        other => panic!("not accepted: {other:?}"),
    }
}

#[test]
fn el_05_titles_are_shown_and_values_sent() {
    let mut dialog = FormDialog::new(choices(), &[]);
    let early = keys(&mut dialog, &[Key::Enter, Key::Down, Key::Enter]);
    assert_eq!(early, None);
    assert!(screen(&dialog).contains("> Red"), "{}", screen(&dialog));
    keys(&mut dialog, &[Key::Char('g'), Key::Enter, Key::Down, Key::Enter]);
    // None, then too many, then two.
    keys(&mut dialog, &[Key::Enter]);
    assert!(screen(&dialog).contains("must have at least 1 choice"), "{}", screen(&dialog));
    let space = Key::Char(' ');
    keys(&mut dialog, &[space.clone(), Key::Down, space.clone(), Key::Down, space.clone(), Key::Enter]);
    assert!(screen(&dialog).contains("must have at most 2 choices"), "{}", screen(&dialog));
    keys(&mut dialog, &[space.clone(), Key::Enter, space, Key::Enter]);
    assert!(screen(&dialog).contains("titled: Green"), "{}", screen(&dialog));
    assert!(screen(&dialog).contains("named: Why"), "{}", screen(&dialog));
    let sent = content(dialog.handle_key(&Key::Enter));
    assert_eq!(sent, json!({"plain": "b", "titled": "g", "named": "y", "many": ["p", "q"], "some": ["r"]}));
}

fn defaults() -> Form {
    let fields = r#"
        "name": {"type": "string", "title": "Your name", "default": "Ada"},
        "age": {"type": "integer", "minimum": 18, "default": 36},
        "share": {"type": "number", "default": 0.5},
        "news": {"type": "boolean", "default": false},
        "size": {"type": "string", "enum": ["s", "l"], "default": "l"},
        "tags": {"type": "array", "items": {"enum": ["p", "q"]}, "default": ["q"]}"#;
    form(fields, &[])
}

#[test]
fn el_06_defaults_are_filled_in_and_sent_untouched() {
    let mut dialog = FormDialog::new(defaults(), &[]);
    dialog.handle_key(&Key::Enter);
    assert!(screen(&dialog).contains("> Ada"), "{}", screen(&dialog));
    keys(&mut dialog, &[const { Key::Enter }; 6]);
    let sent = content(dialog.handle_key(&Key::Enter));
    let all = json!({"name": "Ada", "age": 36, "share": 0.5, "news": false, "size": "l", "tags": ["q"]});
    assert_eq!(sent, all);
}

#[test]
fn el_07_what_does_not_fit_is_said_and_tried_again() {
    let mut dialog = FormDialog::new(defaults(), &[]);
    keys(&mut dialog, &[Key::Enter, Key::Enter, Key::CutLine]);
    assert_eq!(keys(&mut dialog, &typed("17")), None);
    let shown = screen(&dialog);
    assert!(shown.contains("2/6  age") && shown.contains("must be at least 18"), "{shown}");
    // The problem disappears with the next key, and types are preserved.
    dialog.handle_key(&Key::Backspace);
    assert!(!screen(&dialog).contains("must be"), "{}", screen(&dialog));
    keys(&mut dialog, &typed("8"));
    assert!(screen(&dialog).contains("3/6  share"), "{}", screen(&dialog));
    keys(&mut dialog, &[const { Key::Enter }; 4]);
    assert_eq!(content(dialog.handle_key(&Key::Enter))["age"], json!(18));
}

/// EL-03: a person can go back, and change anything before it is sent.
#[test]
fn el_03_an_answer_is_looked_over_and_edited() {
    let fields = r#""a": {"type": "string"}, "b": {"type": "string", "minLength": 2}"#;
    let mut dialog = FormDialog::new(form(fields, &["a"]), &[]);
    keys(&mut dialog, &[Key::Enter, Key::Enter]);
    assert!(screen(&dialog).contains("must be filled in"), "{}", screen(&dialog));
    keys(&mut dialog, &typed("one"));
    keys(&mut dialog, &typed("two"));
    keys(&mut dialog, &[Key::BackTab, Key::BackTab]);
    assert!(screen(&dialog).contains("1/2  a *") && screen(&dialog).contains("> one"), "{}", screen(&dialog));
    keys(&mut dialog, &[Key::Enter, Key::Enter, Key::Down, Key::Enter, Key::CutLine]);
    keys(&mut dialog, &typed("uno"));
    assert!(screen(&dialog).contains("> a: uno"), "{}", screen(&dialog));
    // An optional field that is cleared is left out.
    keys(&mut dialog, &[Key::Down, Key::Enter, Key::CutLine, Key::Enter, Key::Home]);
    assert!(screen(&dialog).contains("b: (left out)"), "{}", screen(&dialog));
    assert_eq!(content(dialog.handle_key(&Key::Enter)), json!({"a": "uno"}));
}

#[test]
fn el_08_no_is_not_the_same_as_nothing() {
    let dialog = || FormDialog::new(defaults(), &[]);
    assert_eq!(dialog().handle_key(&Key::Escape), Some(ElicitResult::Cancel));
    assert_eq!(keys(&mut dialog(), &[Key::Down, Key::Enter]), Some(ElicitResult::Decline));
    assert_eq!(keys(&mut dialog(), &[Key::Up, Key::Enter]), Some(ElicitResult::Cancel));
    // Dismissed from a field, and from the review.
    assert_eq!(keys(&mut dialog(), &[Key::Enter, Key::Char('x'), Key::Escape]), Some(ElicitResult::Cancel));
    let mut review = FormDialog::new(form("", &[]), &[]);
    assert!(screen(&review).contains("> Accept"), "{}", screen(&review));
    assert_eq!(keys(&mut review, &[Key::Down, Key::Enter]), Some(ElicitResult::Decline));
    let mut review = FormDialog::new(form("", &[]), &[]);
    assert_eq!(content(review.handle_key(&Key::Enter)), json!({}));
}

/// A default that its own field rejects is not sent.
#[test]
fn a_wrong_default_has_to_be_mended() {
    let wrong = r#""age": {"type": "integer", "minimum": 18, "default": 3}"#;
    let mut dialog = FormDialog::new(form(wrong, &["age"]), &[]);
    keys(&mut dialog, &[Key::Enter, Key::Enter]);
    assert!(screen(&dialog).contains("must be at least 18"), "{}", screen(&dialog));
}

#[test]
fn what_a_server_writes_stays_text() {
    let hostile = "\u{1b}[2J\nSend\u{202e}";
    let option = json!({"const": "v", "title": hostile});
    let field = json!({"type": "string", "title": hostile, "description": hostile, "oneOf": [option]});
    let mut dialog = FormDialog::new(form(&format!(r#""f": {field}"#), &["f"]), &[]);
    for _ in 0..3 {
        let shown = screen(&dialog);
        assert!(!shown.contains(|c: char| c != '\n' && crate::print::escape::is_active(c)), "{shown:?}");
        dialog.handle_key(&Key::Enter);
    }
}

#[test]
fn a_picture_fits_the_window() {
    let options: Vec<String> = (0..500).map(|n| format!("option {n}")).collect();
    let long = "word ".repeat(1000);
    let field = json!({"type": "string", "description": long, "enum": options});
    let mut dialog = FormDialog::new(form(&format!(r#""f": {field}"#), &["f"]), &[]);
    dialog.handle_key(&Key::Enter);
    for rows in [6, 10, 24] {
        let picture = dialog.draw(TerminalSize { columns: 40, rows });
        assert!(picture.rows.len() <= rows.max(12), "{} rows of {rows}", picture.rows.len());
        let shown: Vec<String> = picture.rows.iter().map(|row| row.to_plain(40)).collect();
        assert!(shown.iter().any(|row| row.contains("> option 0")), "{shown:?}");
    }
}

fn prepared(pairs: &[&str]) -> PreparedAnswers {
    PreparedAnswers::parse(&pairs.iter().map(ToString::to_string).collect::<Vec<_>>()).ok().unwrap()
}

#[test]
fn prepared_answers_are_used_where_they_are_enough() {
    let fields = r#""n": {"type": "integer", "minimum": 2}, "c": {"type": "string", "default": "d"}"#;
    let asked = form(fields, &["n"]);
    let filled = |pairs: &[&str]| prepared(pairs).fill_form(&asked);
    let sent = filled(&["n=3", "other=1"]).unwrap();
    assert_eq!(content(Some(sent)), json!({"n": 3, "c": "d"}));
    assert_eq!(filled(&["n=1"]), Err(vec!["n must be at least 2".to_owned()]));
    assert_eq!(filled(&["c=x"]), Err(vec!["n must be filled in".to_owned()]));
    // The answers are for another form, so this one gets none.
    assert_eq!(filled(&["other=1"]), Err(Vec::new()));
    assert_eq!(prepared(&["x=1"]).fill_form(&form("", &[])), Err(Vec::new()));
    for wrong in [&["n"][..], &["=1"], &["n=1", "n=2"]] {
        assert!(PreparedAnswers::parse(&wrong.iter().map(ToString::to_string).collect::<Vec<_>>()).is_err());
    }
}

#[test]
fn prepared_answers_are_shown_before_they_are_sent() {
    let asked = form(r#""n": {"type": "integer"}"#, &["n"]);
    let (values, _) = prepared(&["n=3"]).values_for(&asked);
    let mut dialog = FormDialog::new(asked, &values);
    assert!(screen(&dialog).contains("n: 3"), "{}", screen(&dialog));
    assert_eq!(content(dialog.handle_key(&Key::Enter)), json!({"n": 3}));
}

/// SA-02: a yes takes more than one key, and what is asked can be changed.
#[test]
fn sa_02_a_model_is_asked_as_the_person_wants() {
    let judge = |keys: &[Key]| {
        let mut dialog = RequestDialog::new(Some("be brief"));
        keys.iter().find_map(|key| dialog.handle_key(key))
    };
    assert_eq!(judge(&[Key::Enter]), Some(RequestDecision::Refuse));
    assert_eq!(judge(&[Key::Escape]), Some(RequestDecision::Refuse));
    assert_eq!(judge(&[Key::Char('a'), Key::Enter]), Some(RequestDecision::Approve));
    let mut edit = vec![Key::Char('e'), Key::Enter, Key::CutWord];
    edit.extend(typed("kind"));
    edit.extend([Key::Char('a'), Key::Enter]);
    assert_eq!(judge(&edit), Some(RequestDecision::ApproveWithPrompt("be kind".to_owned())));
    // Escape discards the edit.
    let left = [Key::Char('e'), Key::Enter, Key::CutLine, Key::Escape, Key::Char('a'), Key::Enter];
    assert_eq!(judge(&left), Some(RequestDecision::Approve));
    let review = |keys: &[Key]| {
        let mut dialog = result_dialog("srv");
        keys.iter().find_map(|key| dialog.handle_key(key))
    };
    assert_eq!(review(&[Key::Enter]), Some(false));
    assert_eq!(review(&[Key::Escape]), Some(false));
    assert_eq!(review(&[Key::Up, Key::Enter]), Some(true));
}
