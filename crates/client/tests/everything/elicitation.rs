//! Elicitation: forms with fields of every kind, and URLs to visit.

use bowline::host::Host;
use bowline::types::code;
use bowline::types::{CallToolResult, ElicitResult, FieldKind};
use bowline::{Client, Json, UrlElicitationOutcome};
use bowline_proto::form;
use serde_json::{Map, Value, json};

use crate::scripted_host::{ScriptedPerson, accept_with};
use crate::{Everything, within};

const FORM_TOOL: &str = "trigger-elicitation-request";
const URL_TOOL: &str = "trigger-url-elicitation";

/// Returns the response as the server received it.
fn received_reply(result: &CallToolResult) -> Value {
    let text = result.text();
    let (_, json) = text.split_once("Raw result: ").unwrap_or_else(|| panic!("nothing quoted: {text}"));
    serde_json::from_str(json).expect("JSON is quoted")
}

async fn connect_person(desk: &ScriptedPerson, everything: &Everything) -> Client {
    everything.connect_as(Host::new().elicitation(desk.clone())).await
}

/// For each field that a person fills in: its name, the text they type, and the JSON that must
/// arrive.
const TYPED_FIELDS: [(&str, &str, &str); 10] = [
    ("name", "Ann Ashley", r#""Ann Ashley""#),
    ("check", "yes", "true"),
    ("email", " ann@example.org ", r#""ann@example.org""#),
    ("homepage", "https://example.org/knots", r#""https://example.org/knots""#),
    ("birthdate", "1944-02-29", r#""1944-02-29""#),
    ("integer", "7", "7"),
    ("untitledSingleSelectEnum", "joey", r#""Joey""#),
    ("untitledMultipleSelectEnum", "Piano, Bass", r#"["Piano","Bass"]"#),
    ("titledSingleSelectEnum", "Wonder Woman", r#""hero-3""#),
    ("legacyTitledEnum", "Reptiles", r#""pet-5""#),
];

/// Fields that the person leaves alone, and the default value that must arrive.
const PREFILLED_FIELDS: [(&str, &str); 3] = [
    ("firstLine", r#""It was a dark and stormy night.""#),
    ("number", "3.14"),
    ("titledMultipleSelectEnum", r#"["fish-1"]"#),
];

/// EL-02, EL-05, EL-06, EL-07: a form with thirteen fields, of every kind there is.
#[tokio::test]
async fn every_kind_of_field_is_filled_in() {
    within("a form", async {
        for everything in Everything::start_both().await {
            let empty = ScriptedPerson::new([]);
            let client = connect_person(&empty, &everything).await;
            client.call_tool(FORM_TOOL, &Value::Null).await.unwrap();
            client.close().await;
            let shown = empty.forms();
            let form = &shown[0].form;
            assert_eq!(form.fields.len(), TYPED_FIELDS.len() + PREFILLED_FIELDS.len());

            // Like a dialog, parse each field from the typed text.
            let field = |name: &str| form.fields.iter().find(|field| &*field.name == name).unwrap();
            let mut content = Map::new();
            for (name, typed, _) in TYPED_FIELDS {
                let value =
                    form::parse_field(field(name), typed).unwrap_or_else(|why| panic!("{name} {why}"));
                content.insert(name.to_owned(), value.decode().unwrap());
            }
            let desk = ScriptedPerson::new([accept_with(&Value::Object(content))]);
            let client = connect_person(&desk, &everything).await;
            let result = client.call_tool(FORM_TOOL, &Value::Null).await.unwrap();
            let mut expected = Map::new();
            for (name, json) in
                TYPED_FIELDS.map(|(name, _, json)| (name, json)).into_iter().chain(PREFILLED_FIELDS)
            {
                expected.insert(name.to_owned(), serde_json::from_str(json).unwrap());
            }
            assert_eq!(received_reply(&result), json!({ "action": "accept", "content": expected }));
            assert!(result.text().contains("- Birthdate: 1944-02-29"), "{}", result.text());
            client.close().await;
        }
    })
    .await;
}

/// EL-07: values that do not fit are reported per field and never reach the server.
#[tokio::test]
async fn values_that_do_not_fit_the_form_are_not_sent() {
    within("a form", async {
        for everything in Everything::start_both().await {
            let wrong = json!({
                "check": "yes", "firstLine": 1, "email": "nobody", "homepage": "knots", "birthdate": "29.2.1944",
                "integer": 101, "number": -1, "untitledSingleSelectEnum": "Gunther",
                "untitledMultipleSelectEnum": [], "titledSingleSelectEnum": "Wonder Woman",
                "titledMultipleSelectEnum": ["fish-1", "fish-2", "fish-3", "fish-1"],
                "legacyTitledEnum": "Reptiles",
            });
            let desk = ScriptedPerson::new([accept_with(&wrong)]);
            let client = connect_person(&desk, &everything).await;
            let result = client.call_tool(FORM_TOOL, &Value::Null).await.unwrap();
            assert!(result.is_error, "{}", result.text());
            assert!(!result.text().contains("Gunther"), "{}", result.text());

            let shown = desk.forms();
            let form = &shown[0].form;
            let errors = form::check_form(form, &Json::encode(&wrong).unwrap()).unwrap_err();
            let named: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
            let all: Vec<&str> = form.fields.iter().map(|field| &*field.name).collect();
            assert_eq!(named, all, "each is wrong in its own way, and the name is missing");
            assert!(form.fields.iter().any(|field| matches!(field.kind, FieldKind::Choices { .. })));
            client.close().await;
        }
    })
    .await;
}

/// EL-03, EL-08
#[tokio::test]
async fn a_form_can_be_declined_and_dismissed() {
    within("a form", async {
        for everything in Everything::start_both().await {
            let desk = ScriptedPerson::new([ElicitResult::Decline, ElicitResult::Cancel]);
            let client = connect_person(&desk, &everything).await;
            let declined = client.call_tool(FORM_TOOL, &Value::Null).await.unwrap();
            assert_eq!(received_reply(&declined), json!({ "action": "decline" }));
            assert!(declined.text().contains("User declined"), "{}", declined.text());
            let dismissed = client.call_tool(FORM_TOOL, &Value::Null).await.unwrap();
            assert_eq!(received_reply(&dismissed), json!({ "action": "cancel" }));
            assert!(dismissed.text().contains("User cancelled"), "{}", dismissed.text());
            assert_eq!(desk.forms().len(), 2);
            assert_eq!(&*desk.forms()[0].server, "everything");
            client.close().await;
        }
    })
    .await;
}

/// EL-01, EL-09, EL-10
#[tokio::test]
async fn a_url_elicitation_is_accepted_or_not() {
    within("a page", async {
        for everything in Everything::start_both().await {
            // The response to a URL elicitation has no content, whatever the dialog returns.
            let desk = ScriptedPerson::new([
                accept_with(&json!({ "token": "t" })),
                ElicitResult::Decline,
                ElicitResult::Cancel,
            ]);
            let client = connect_person(&desk, &everything).await;
            let page =
                json!({ "url": "https://example.org/pay?n=1", "message": "Pay.", "elicitationId": "e-1" });
            for action in ["accept", "decline", "cancel"] {
                let result = client.call_tool(URL_TOOL, &page).await.unwrap();
                assert_eq!(received_reply(&result), json!({ "action": action }));
            }
            let shown = desk.pages();
            assert_eq!(shown.len(), 3);
            let page = &shown[0].elicitation;
            assert_eq!((&*page.url, &*page.message), ("https://example.org/pay?n=1", "Pay."));
            assert_eq!(page.id.as_deref(), Some("e-1"));

            // EL-09: a URL that is not a web page is not shown at all.
            let page = json!({ "url": "javascript:alert(1)", "message": "Run." });
            let result = client.call_tool(URL_TOOL, &page).await.unwrap();
            assert_eq!(received_reply(&result), json!({ "action": "decline" }));
            assert_eq!(desk.pages().len(), 3);
            client.close().await;
        }
    })
    .await;
}

/// EL-11: a call refused with -32042 is retried after the URL elicitation. The server never reports
/// completion, so the person does.
#[tokio::test]
async fn a_call_that_needs_a_url_elicitation_is_retried_after_it() {
    within("a page", async {
        for everything in Everything::start_both().await {
            let consent = || ElicitResult::Accept(None);
            let desk = ScriptedPerson::new([consent(), consent()]);
            let client = connect_person(&desk, &everything).await;
            let arguments =
                json!({ "url": "https://example.org/then", "message": "Then.", "errorPath": true });
            let result = client.call_tool(URL_TOOL, &arguments).await.unwrap();
            assert!(result.text().contains("User completed the URL elicitation flow"), "{}", result.text());
            let shown = desk.pages();
            let [needed, then] = &*shown else { panic!("{shown:?}") };
            assert_eq!(&*needed.elicitation.url, "https://modelcontextprotocol.io");
            assert_eq!(needed.purpose.as_deref(), Some("tools/call trigger-url-elicitation"));
            assert_eq!(&*then.elicitation.url, "https://example.org/then");
            client.close().await;

            // EL-10: after a refusal or a dismissal the caller gets the server's error.
            for (answer, url_outcome) in [
                (ElicitResult::Decline, UrlElicitationOutcome::Retry),
                (consent(), UrlElicitationOutcome::GiveUp),
            ] {
                let mut desk = ScriptedPerson::new([answer]);
                desk.url_outcome = url_outcome;
                let client = connect_person(&desk, &everything).await;
                let error = client.call_tool(URL_TOOL, &arguments).await.unwrap_err();
                assert_eq!(error.server_error().unwrap().code, code::URL_ELICITATION_REQUIRED);
                assert_eq!(desk.pages().len(), 1);
                client.close().await;
            }
        }
    })
    .await;
}
