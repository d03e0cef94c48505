//! Tests of the host alone: what it declares, accepts and sends. One file per kind of request.

mod elicit;
mod from_config;
mod question_queue;
mod sample;

use std::collections::VecDeque;

use bowline_proto::revision::Revision;
use bowline_proto::wire::view::{ElicitResult as Reply, SamplingResult};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;

/// What a person was shown, and what happened to it.
#[derive(Debug, PartialEq)]
enum DialogEvent {
    /// A form: its server, purpose and message.
    Form(String, Option<String>, String),
    /// A URL: its server and the URL.
    Page(String, String),
    /// A dialog was closed without an answer.
    Dismissed,
    /// A URL elicitation was completed.
    Completed(String),
}

/// A person who gives the scripted replies, and never answers without one.
struct Person {
    modes: Modes,
    replies: Mutex<VecDeque<Reply>>,
    seen: UnboundedSender<DialogEvent>,
}

impl Person {
    fn new(modes: Modes, replies: impl IntoIterator<Item = Reply>) -> (Self, UnboundedReceiver<DialogEvent>) {
        let (seen, heard) = unbounded_channel();
        (Self { modes, replies: Mutex::new(replies.into_iter().collect()), seen }, heard)
    }

    fn ask(&self, shown: DialogEvent) -> HostFuture<'_, Reply> {
        struct Dialog<'a>(&'a Person, bool);
        impl Drop for Dialog<'_> {
            fn drop(&mut self) {
                if self.1 {
                    let _ = self.0.seen.send(DialogEvent::Dismissed);
                }
            }
        }
        let _ = self.seen.send(shown);
        let reply = self.replies.lock().pop_front();
        let dialog = Dialog(self, true);
        Box::pin(async move {
            let mut dialog = dialog;
            match reply {
                Some(reply) => {
                    dialog.1 = false;
                    reply
                }
                None => std::future::pending().await,
            }
        })
    }
}

impl Elicit for Person {
    fn modes(&self) -> Modes {
        self.modes
    }

    fn form(&self, request: FormRequest) -> HostFuture<'_, Reply> {
        let during = request.purpose.map(|during| during.to_string());
        self.ask(DialogEvent::Form(request.server.to_string(), during, request.form.message.into()))
    }

    fn url(&self, request: UrlRequest) -> HostFuture<'_, Reply> {
        self.ask(DialogEvent::Page(request.server.to_string(), request.elicitation.url.into()))
    }

    fn url_completed(&self, _: &str, id: &str) {
        let _ = self.seen.send(DialogEvent::Completed(id.to_owned()));
    }
}

fn json_of(value: &Value) -> Json {
    Json::encode(value).unwrap()
}

fn request(server: &str, method: &str, params: &Value) -> ServerRequest {
    ServerRequest::new(server, Revision::V2025_11_25, method, json_of(params))
}

/// The result as a value, or the code of the error.
async fn ask(host: &Host, method: &str, params: Value) -> Result<Value, i64> {
    let answer = host.handle(request("test", method, &params)).await;
    answer.map(|json| json.decode().unwrap()).map_err(|error| error.code)
}

fn form(properties: Value) -> Value {
    json!({ "message": "?", "requestedSchema": { "type": "object", "properties": properties } })
}

fn url_params(url: &str) -> Value {
    json!({ "mode": "url", "message": "?", "url": url, "elicitationId": "e1" })
}

/// A model with a scripted answer, and flags.
struct Model {
    tools: bool,
    context: bool,
    says: Result<SamplingResult, SamplingRefusal>,
    seen: UnboundedSender<SampleRequest>,
}

impl Model {
    fn says(says: Result<SamplingResult, SamplingRefusal>) -> (Self, UnboundedReceiver<SampleRequest>) {
        let (seen, heard) = unbounded_channel();
        (Self { tools: false, context: false, says, seen }, heard)
    }
}

impl Sample for Model {
    fn tools(&self) -> bool {
        self.tools
    }

    fn context(&self) -> bool {
        self.context
    }

    fn sample(&self, request: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
        let _ = self.seen.send(request);
        Box::pin(async { self.says.clone() })
    }
}

/// RT-01, SA-01, EL-01: only the parts that are set are declared.
#[test]
fn capabilities_are_those_of_the_parts() {
    let declared = |host: Host| host.capabilities().decode::<Value>().unwrap();
    assert_eq!(declared(Host::new()), json!({}));
    let person = |modes| Person::new(modes, []).0;
    let model = |tools, context| {
        let (model, _) = Model::says(Err(SamplingRefusal::Declined));
        Model { tools, context, ..model }
    };
    assert_eq!(declared(Host::new().roots(Roots::new([]))), json!({ "roots": { "listChanged": true } }));
    for (modes, shown) in [
        (Modes::BOTH, json!({ "elicitation": { "form": {}, "url": {} } })),
        (Modes::FORM, json!({ "elicitation": { "form": {} } })),
        (Modes::URL, json!({ "elicitation": { "url": {} } })),
        (Modes { form: false, url: false }, json!({})),
    ] {
        assert_eq!(declared(Host::new().elicitation(person(modes))), shown);
    }
    for (tools, context, flags) in [
        (false, false, json!({})),
        (true, false, json!({ "tools": {} })),
        (true, true, json!({ "tools": {}, "context": {} })),
    ] {
        assert_eq!(declared(Host::new().sampling(model(tools, context))), json!({ "sampling": flags }));
    }
    let host = Host::new()
        .extension("org.example/a", json_of(&json!({ "x": 1 })))
        .extension("org.example/b", json_of(&json!(null)));
    let extensions = json!({ "org.example/a": { "x": 1 }, "org.example/b": {} });
    assert_eq!(declared(host), json!({ "extensions": extensions }));
}

/// RT-01: a closure is asked for the roots each time. Nobody announces its changes, so none are
/// declared; the later of list and closure counts.
#[tokio::test]
async fn rt_01_a_closure_lists_the_roots() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::folder(folder.path()).unwrap();
    let (count, listed) = (Arc::new(Mutex::new(0)), root.clone());
    let host = Host::new().roots([]).on_roots(move || {
        *count.lock() += 1;
        let root = listed.clone().with_name(&format!("call {}", count.lock()));
        async move { vec![root] }
    });
    assert_eq!(host.capabilities().decode::<Value>().unwrap(), json!({ "roots": {} }));
    assert!(host.roots_changed().is_none());
    for call in ["call 1", "call 2"] {
        let expected = json!({ "roots": [{ "uri": root.uri(), "name": call }] });
        assert_eq!(ask(&host, "roots/list", json!({})).await, Ok(expected));
    }
    let host = host.roots([]);
    assert_eq!(host.capabilities().decode::<Value>().unwrap(), json!({ "roots": { "listChanged": true } }));
    assert_eq!(ask(&host, "roots/list", json!({})).await, Ok(json!({ "roots": [] })));
}

/// RT-04: a request without a part is refused.
#[tokio::test]
async fn rt_04_without_a_part_there_is_no_answer() {
    let none = Person::new(Modes { form: false, url: false }, []).0;
    let host = Host::new().elicitation(none);
    for method in ["roots/list", "sampling/createMessage", "elicitation/create", "made/up"] {
        assert_eq!(ask(&host, method, json!({})).await, Err(code::METHOD_NOT_FOUND), "{method}");
    }
}
