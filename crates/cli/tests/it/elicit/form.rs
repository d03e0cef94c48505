//! Forms that are filled in, declined and dismissed.

use bowline_testkit::{Script, ScriptedRequest};
use serde_json::json;

use super::{context_with_server, form_server, server_asking, start_call, tool_reply};
use crate::pty::{CLEAR, DOWN, ENTER, ESCAPE, HOME, Person};

/// EL-03, EL-05, EL-06, EL-07: one form in both eras, with a mistake in every field.
async fn check_form(script: Script, era: &str) {
    let server = script.stdio().await;
    let context = context_with_server(&server);
    let mut person = start_call(&context);
    let asked = person.sees("> Answer");
    assert!(asked.contains("hotel asks for your input"), "{asked}");
    // MR-08: only a modern server says which call an elicitation belongs to.
    assert_eq!(asked.contains("during tools/call book"), era == "modern", "{asked}");
    assert!(asked.contains("Who comes?\\u{1b}[2J"), "{asked}");
    assert!(asked.contains("Decline") && asked.contains("Cancel"), "{asked}");

    // The scripted server sends its fields in alphabetical order.
    let age = person.answers(ENTER, "1/6  Age *");
    assert!(age.contains("In years") && age.contains("a whole number, at least 18"), "{age}");
    person.answers("17\r", "must be at least 18");
    person.answers(&format!("{CLEAR}eighteen\r"), "must be a whole number");
    person.answers(&format!("{CLEAR}18\r"), "> [ ] Breakfast");
    person.answers(ENTER, "must have at least 1 choice");
    person.answers(&format!(" {DOWN} {DOWN} \r"), "must have at most 2 choices");
    person.answers(" ", "> [ ] Dog");
    person.answers(ENTER, "3/6  guest *");
    person.answers("A\r", "must have at least 2 characters");
    person.answers("da\r", "4/6  news");
    person.sees("> No");
    person.answers(ENTER, "> none");
    person.answers(ENTER, "> Single room");
    person.answers(DOWN, "> Double room");
    let review = person.answers(ENTER, "> Send");
    for line in
        ["Age: 18", "extras: Breakfast, Parking", "guest: Ada", "news: No", "note: none", "room: Double room"]
    {
        assert!(review.contains(line), "{line} in {review}");
    }
    // The summary is reviewed, and a field is changed.
    person.answers("g", "> guest: Ada");
    person.answers(ENTER, "3/6  guest *");
    person.answers(&format!("{CLEAR}Grace\r"), "> guest: Grace");
    person.answers(HOME, "> Send");
    person.presses(ENTER);

    let end = person.leaves();
    let filled = json!({
        "guest": "Grace", "age": 18, "room": "d2", "extras": ["b", "p"], "news": false, "note": "none",
    });
    assert_eq!(tool_reply(&end, "stay"), json!({"action": "accept", "content": filled}));
    // The dialog is gone from the screen; the server's name and the outcome stay.
    assert!(end.screen.contains("sent to hotel") && !end.screen.contains("Your answer"), "{}", end.screen);
    assert_eq!(server.violations(), [""; 0]);
}

#[tokio::test]
async fn el_03_a_modern_servers_form_is_filled_in() {
    check_form(form_server().modern(), "modern").await;
}

#[tokio::test]
async fn el_03_a_legacy_servers_form_is_filled_in() {
    check_form(form_server().legacy(), "legacy").await;
}

/// EL-08: declining and dismissing are different responses.
#[tokio::test]
async fn el_08_a_form_is_declined_or_dismissed() {
    for (keys, action) in [("d\r", "decline"), (ESCAPE, "cancel"), ("c\r", "cancel")] {
        let server = form_server().stdio().await;
        let context = context_with_server(&server);
        let mut person = start_call(&context);
        person.sees("> Answer");
        person.presses(keys);
        let end = person.leaves();
        assert_eq!(tool_reply(&end, "stay"), json!({"action": action}));
    }
}

/// EL-04: a form that cannot be shown is declined without a prompt, and a note says so.
#[tokio::test]
async fn el_04_a_form_that_cannot_be_shown_is_declined() {
    let nested = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
    let many: serde_json::Map<_, _> =
        (0..501).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
    for (schema, why) in [
        (nested, "its form is of a kind that cannot be shown (requestedSchema.properties.a"),
        (json!({"type": "object", "properties": many}), "nobody can fill in a form of 501 fields"),
    ] {
        let server =
            server_asking(ScriptedRequest::form_elicitation("who", "Who comes?", schema)).stdio().await;
        let context = context_with_server(&server);
        let end = start_call(&context).leaves();
        assert_eq!(tool_reply(&end, "who"), json!({"action": "decline"}), "{}", end.screen);
        let note = r#"{"note":{"asked":"Who comes?","during":"tools/call book","kind":"declined","#;
        assert!(end.screen.starts_with(note) && end.screen.contains(why), "{}", end.screen);
        let end = Person::sits_at(context.bowline(["call", "hotel", "book"])).leaves();
        assert!(end.screen.contains("during tools/call book, asked: Who comes?"), "{}", end.screen);
        assert!(end.screen.contains(&format!("it was declined: {why}")), "{}", end.screen);
    }
}
