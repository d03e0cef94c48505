//! Elicitation: forms with fields of every kind, and URLs to visit.

use bowline::host::Host;
use bowline::view::{CallToolResult, ElicitResult, FieldKind};
use bowline::wire::{Json, code};
use bowline::{Client, UrlElicitationOutcome, form};
use serde_json::{Map, Value, json};

use crate::desk::{Desk, filled_in};
use crate::{Everything, within};

const FORM: &str = "trigger-elicitation-request";
const PAGE: &str = "trigger-url-elicitation";

/// Returns the response as the server received it.
fn received(result: &CallToolResult) -> Value {
    let text = result.text();
    let (_, json) = text.split_once("Raw result: ").unwrap_or_else(|| panic!("nothing quoted: {text}"));
    serde_json::from_str(json).expect("JSON is quoted")
}

async fn at(desk: &Desk, everything: &Everything) -> Client {
    everything.connect_as(Host::new().elicitation(desk.clone())).await
}

/// For each field that a person fills in: its name, the text they type, and the JSON that must
/// arrive.
const TYPED: [(&str, &str, &str); 10] = [
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
const LEFT: [(&str, &str); 3] = [
    ("firstLine", r#""It was a dark and stormy night.""#),
    ("number", "3.14"),
    ("titledMultipleSelectEnum", r#"["fish-1"]"#),
];

/// EL-02, EL-05, EL-06, EL-07: a form with thirteen fields, of every kind there is.
#[tokio::test]
async fn every_kind_of_field_is_filled_in() {
    within("a form", async {
        for everything in Everything::each().await {
            let empty = Desk::new([]);
            let client = at(&empty, &everything).await;
            client.call_tool(FORM, &Value::Null).await.unwrap();
            client.close().await;
            let shown = empty.forms();
            let form = &shown[0].form;
            assert_eq!(form.fields.len(), TYPED.len() + LEFT.len());

            // Like a dialog, parse each field from the typed text.
            let field = |name: &str| form.fields.iter().find(|field| &*field.name == name).unwrap();
            let mut content = Map::new();
            for (name, typed, _) in TYPED {
                let value = form::parse(field(name), typed).unwrap_or_else(|why| panic!("{name} {why}"));
                content.insert(name.to_owned(), value.decode().unwrap());
            }
            let desk = Desk::new([filled_in(&Value::Object(content))]);
            let client = at(&desk, &everything).await;
            let result = client.call_tool(FORM, &Value::Null).await.unwrap();
            let mut expected = Map::new();
            for (name, json) in TYPED.map(|(name, _, json)| (name, json)).into_iter().chain(LEFT) {
                expected.insert(name.to_owned(), serde_json::from_str(json).unwrap());
            }
            assert_eq!(received(&result), json!({ "action": "accept", "content": expected }));
            assert!(result.text().contains("- Birthdate: 1944-02-29"), "{}", result.text());
            client.close().await;
        }
    })
    .await;
}

/// EL-07: values that do not fit are reported per field and never reach the server.
#[tokio::test]
async fn what_does_not_fit_is_not_sent() {
    within("a form", async {
        for everything in Everything::each().await {
            let wrong = json!({
                "check": "yes", "firstLine": 1, "email": "nobody", "homepage": "knots", "birthdate": "29.2.1944",
                "integer": 101, "number": -1, "untitledSingleSelectEnum": "Gunther",
                "untitledMultipleSelectEnum": [], "titledSingleSelectEnum": "Wonder Woman",
                "titledMultipleSelectEnum": ["fish-1", "fish-2", "fish-3", "fish-1"],
                "legacyTitledEnum": "Reptiles",
            });
            let desk = Desk::new([filled_in(&wrong)]);
            let client = at(&desk, &everything).await;
            let result = client.call_tool(FORM, &Value::Null).await.unwrap();
            assert!(result.is_error, "{}", result.text());
            assert!(!result.text().contains("Gunther"), "{}", result.text());

            let shown = desk.forms();
            let form = &shown[0].form;
            let errors = form::check(form, &Json::encode(&wrong).unwrap()).unwrap_err();
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
        for everything in Everything::each().await {
            let desk = Desk::new([ElicitResult::Decline, ElicitResult::Cancel]);
            let client = at(&desk, &everything).await;
            let declined = client.call_tool(FORM, &Value::Null).await.unwrap();
            assert_eq!(received(&declined), json!({ "action": "decline" }));
            assert!(declined.text().contains("User declined"), "{}", declined.text());
            let dismissed = client.call_tool(FORM, &Value::Null).await.unwrap();
            assert_eq!(received(&dismissed), json!({ "action": "cancel" }));
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
async fn a_page_is_agreed_to_or_not() {
    within("a page", async {
        for everything in Everything::each().await {
            // The response to a URL elicitation has no content, whatever the dialog returns.
            let desk =
                Desk::new([filled_in(&json!({ "token": "t" })), ElicitResult::Decline, ElicitResult::Cancel]);
            let client = at(&desk, &everything).await;
            let page =
                json!({ "url": "https://example.org/pay?n=1", "message": "Pay.", "elicitationId": "e-1" });
            for action in ["accept", "decline", "cancel"] {
                let result = client.call_tool(PAGE, &page).await.unwrap();
                assert_eq!(received(&result), json!({ "action": action }));
            }
            let shown = desk.pages();
            assert_eq!(shown.len(), 3);
            let page = &shown[0].elicitation;
            assert_eq!((&*page.url, &*page.message), ("https://example.org/pay?n=1", "Pay."));
            assert_eq!(page.id.as_deref(), Some("e-1"));

            // EL-09: a URL that is not a web page is not shown at all.
            let page = json!({ "url": "javascript:alert(1)", "message": "Run." });
            let result = client.call_tool(PAGE, &page).await.unwrap();
            assert_eq!(received(&result), json!({ "action": "decline" }));
            assert_eq!(desk.pages().len(), 3);
            client.close().await;
        }
    })
    .await;
}

/// EL-11: a call refused with -32042 is retried after the URL elicitation. The server never reports
/// completion, so the person does.
#[tokio::test]
async fn a_call_that_needs_a_page_goes_again_after_it() {
    within("a page", async {
        for everything in Everything::each().await {
            let consent = || ElicitResult::Accept(None);
            let desk = Desk::new([consent(), consent()]);
            let client = at(&desk, &everything).await;
            let arguments =
                json!({ "url": "https://example.org/then", "message": "Then.", "errorPath": true });
            let result = client.call_tool(PAGE, &arguments).await.unwrap();
            assert!(result.text().contains("User completed the URL elicitation flow"), "{}", result.text());
            let shown = desk.pages();
            let [needed, then] = &*shown else { panic!("{shown:?}") };
            assert_eq!(&*needed.elicitation.url, "https://modelcontextprotocol.io");
            assert_eq!(needed.purpose.as_deref(), Some("tools/call trigger-url-elicitation"));
            assert_eq!(&*then.elicitation.url, "https://example.org/then");
            client.close().await;

            // EL-10: after a refusal or a dismissal the caller gets the server's error.
            for (answer, onward) in [
                (ElicitResult::Decline, UrlElicitationOutcome::Retry),
                (consent(), UrlElicitationOutcome::GiveUp),
            ] {
                let mut desk = Desk::new([answer]);
                desk.onward = onward;
                let client = at(&desk, &everything).await;
                let error = client.call_tool(PAGE, &arguments).await.unwrap_err();
                assert_eq!(error.server_error().unwrap().code, code::URL_ELICITATION_REQUIRED);
                assert_eq!(desk.pages().len(), 1);
                client.close().await;
            }
        }
    })
    .await;
}
