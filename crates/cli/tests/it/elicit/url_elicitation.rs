//! URL elicitations.

use std::path::Path;

use bowline_testkit::{self as testkit, Fault, Script, ScriptedRequest, StdioServer, Tool};
use serde_json::json;

use super::{context_with_server, server_asking, start_call, tool_reply};
use crate::browser::Browser;
use crate::context::Context;
use crate::pty::{ENTER, ESCAPE, Person, TerminalExit};

fn start_call_with_browser(program: &Path, context: &Context) -> Person {
    let mut command = context.bowline(["call", "--json", "hotel", "book"]);
    command.env("BROWSER", program);
    Person::sits_at(command)
}

/// Consents to opening the page in the browser.
fn open_page_in_browser(mut person: Person) -> TerminalExit {
    person.sees("> Decline");
    person.answers("o", "> Open it in the browser");
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!(tool_reply(&end, "pay"), json!({"action": "accept"}));
    end
}

const PAGE_URL: &str = "https://pay.example/x?a=1&b=$(touch%20y);c";

fn url_server() -> Script {
    server_asking(ScriptedRequest::url_elicitation("pay", "Please pay", PAGE_URL))
}

/// EL-09, EL-10: the URL is shown in full, and opened after consent, as one argument of the
/// browser.
#[tokio::test]
async fn el_09_a_url_is_opened_after_consent() {
    let server = url_server().stdio().await;
    let context = context_with_server(&server);
    let browser = Browser::new(&context);
    let person = start_call_with_browser(&browser.program, &context);
    let asked = person.sees("> Decline");
    assert!(asked.contains("hotel wants you to open a page") && asked.contains("Please pay"), "{asked}");
    assert!(asked.contains(PAGE_URL) && asked.contains("it leads to pay.example"), "{asked}");
    browser.assert_not_started();
    let end = open_page_in_browser(person);
    assert!(end.screen.contains("between you and `hotel`"), "{}", end.screen);
    assert_eq!(browser.opened(), format!("1|{PAGE_URL}"));
}

/// EL-08, EL-09: a refusal opens nothing, nor does the choice to open the URL oneself.
#[tokio::test]
async fn el_09_a_url_is_not_opened_without_consent() {
    for (keys, action) in [(ENTER, "decline"), (ESCAPE, "cancel"), ("i\r", "accept"), ("c\r", "cancel")] {
        let server = url_server().stdio().await;
        let context = context_with_server(&server);
        let browser = Browser::new(&context);
        let mut person = start_call_with_browser(&browser.program, &context);
        person.sees("> Decline");
        person.presses(keys);
        let end = person.leaves();
        assert_eq!(tool_reply(&end, "pay"), json!({"action": action}));
        browser.assert_not_started();
    }
}

#[tokio::test]
async fn el_09_a_misleading_url_has_a_warning() {
    let server = server_asking(ScriptedRequest::url_elicitation(
        "pay",
        "Pay",
        "http://bank.example@xn--evl-hoa.example/",
    ))
    .stdio()
    .await;
    let context = context_with_server(&server);
    let mut person = start_call(&context);
    let asked = person.sees("> Decline");
    for warning in
        ["may look like others", "before the @", "not encrypted", "it leads to xn--evl-hoa.example"]
    {
        assert!(asked.contains(warning), "{warning} in {asked}");
    }
    person.presses(ENTER);
    person.leaves();
}

/// Chooses to open the page without the browser, and waits to be asked whether that is done.
fn open_page_oneself(person: &mut Person) {
    person.sees("> Decline");
    person.answers("i", "> I open it myself");
    person.answers(ENTER, "> I am done there");
}

/// Starts a call that the server executes once the page `p1` is completed, up to the prompt for
/// that.
async fn start_call_that_needs_a_page() -> (StdioServer, Context, Person) {
    let tool = Tool::needs_url_elicitations("book", [("p1", PAGE_URL)]);
    let server = testkit::server().legacy().tool(tool).stdio().await;
    let context = context_with_server(&server);
    let mut person = start_call(&context);
    open_page_oneself(&mut person);
    (server, context, person)
}

/// EL-10, EL-11: a call that requires a URL elicitation is retried when the person says so.
#[tokio::test]
async fn el_11_the_person_reports_completion() {
    // Once; the server reports no completion.
    let pages =
        json!({"elicitations": [{"mode": "url", "elicitationId": "p1", "message": "Pay", "url": PAGE_URL}]});
    let refusal = Fault::error_with_data(-32042, "pay first", &pages).on("tools/call");
    let server = testkit::server().legacy().tool(Tool::like("book", "echo")).fault(refusal).stdio().await;
    let context = context_with_server(&server);
    let mut person = start_call(&context);
    open_page_oneself(&mut person);
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    let calls = server.received().iter().filter(|received| received.tool() == Some("book")).count();
    assert_eq!(calls, 2);
}

/// EL-11: the server reports completion, and the prompt closes by itself.
#[tokio::test]
async fn el_11_the_server_reports_completion() {
    let (server, _context, person) = start_call_that_needs_a_page().await;
    assert_eq!(server.complete_elicitation("p1"), 1);
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    assert!(end.screen.contains("reports that you have finished"), "{}", end.screen);
}

#[tokio::test]
async fn el_10_the_person_gives_up() {
    let (_server, _context, mut person) = start_call_that_needs_a_page().await;
    person.presses(ESCAPE);
    assert_eq!(person.leaves().code, 6);
}

/// A failing browser has opened nothing: the URL is shown again, to be opened by hand.
#[tokio::test]
async fn el_09_a_failing_browser_is_reported() {
    let server = url_server().stdio().await;
    let context = context_with_server(&server);
    let end = open_page_in_browser(start_call_with_browser(Path::new("false"), &context));
    assert!(end.screen.contains("no browser could be opened (false: exit status: 1)"), "{}", end.screen);
    assert_eq!(end.screen.matches(PAGE_URL).count(), 2, "{}", end.screen);
}

/// EL-09: a URL that is not a web page is declined without a prompt, and a note says so.
#[tokio::test]
async fn el_09_a_url_that_is_no_web_page_is_declined() {
    for url in ["javascript:alert(1)", "file:///etc/passwd"] {
        let server = server_asking(ScriptedRequest::url_elicitation("pay", "Please pay", url)).stdio().await;
        let context = context_with_server(&server);
        let end = Person::sits_at(context.bowline(["call", "hotel", "book"])).leaves();
        assert!(end.stdout.contains("decline"), "{}", end.stdout);
        assert!(end.screen.contains(&format!("wanted you to open {url}")), "{}", end.screen);
        assert!(end.screen.contains("only http and https pages can be opened"), "{}", end.screen);
    }
}

/// SE-01: a remote server must not send the browser to this machine. It is reached through a proxy,
/// so that no name has to be resolved.
#[tokio::test]
async fn se_01_a_local_url_of_a_remote_server_is_declined() {
    for url in ["http://127.0.0.1:1/admin", "http://localhost:1/admin", "http://router.lan/admin"] {
        let server = server_asking(ScriptedRequest::url_elicitation("pay", "Please pay", url)).run().await;
        let context = Context::new();
        context.user_config("[servers.hotel]\nurl = 'http://mcp.test/mcp'\n");
        let mut command = context.bowline(["call", "--json", "hotel", "book"]);
        command.env("http_proxy", server.url().rsplit_once('/').unwrap().0);
        let end = Person::sits_at(command).leaves();
        assert_eq!(tool_reply(&end, "pay"), json!({"action": "decline"}), "{url}: {}", end.screen);
        assert!(!end.screen.contains("wants you to open a page"), "{}", end.screen);
    }
}
