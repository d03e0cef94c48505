//! Server requests, log levels, templates with completion, and tasks of a server made with rmcp.

use std::collections::BTreeMap;

use bowline::host::{Host, Root, Roots, SamplingRefusal};
use bowline::templates::{Template, Value as Variable};
use bowline::types::{ElicitResult, LogLevel, LogMessage, ResourceBody, TaskStatus};
use bowline::{CallOptions, Client, Era, ErrorKind, Event, Reference, TaskEnd, TaskOrResult, Topic};
use serde_json::{Value, json};

use crate::interactive_servers;
use crate::limit::within;
use crate::scripted_host::{ScriptedModel, ScriptedPerson, accept_with};

/// MR-02, MR-03, SA-06, RT-01: elicitation, sampling and roots in one round or one by one, through
/// one host.
#[tokio::test]
async fn a_person_a_model_and_roots_are_asked() {
    within("questions", async {
        for (name, server) in interactive_servers().await {
            let folder = tempfile::tempdir().unwrap();
            let desk = ScriptedPerson::new([accept_with(&json!({ "name": "Ann" }))]);
            let model = ScriptedModel::new(Ok("Mind the bight."));
            let roots = Roots::new([Root::folder(folder.path()).unwrap().with_name("loft")]);
            let host = Host::new().roots(roots.clone()).elicitation(desk.clone()).sampling(model.clone());
            let client = Client::builder(server.clone()).handler(host).connect().await.unwrap();
            let result = client.call_tool("consult", &Value::Null).await.unwrap();
            assert_eq!(result.text(), "Ann: Mind the bight. (\"loft\")", "{name}");
            assert_eq!((desk.forms().len(), desk.pages().len(), model.requests().len()), (1, 0, 1), "{name}");
            client.close().await;

            // SA-07: a legacy server is told of the refusal; with a modern one the call just ends.
            let model = ScriptedModel::new(Err(SamplingRefusal::Declined));
            let host = Host::new().roots(roots).elicitation(ScriptedPerson::new([])).sampling(model.clone());
            let client = Client::builder(server).handler(host).connect().await.unwrap();
            let error = client.call_tool("consult", &Value::Null).await.unwrap_err();
            let told = error.server_error().is_some_and(|error| error.message.contains("User rejected"));
            assert_eq!(told, name.starts_with("legacy"), "{name}: {error}");
            assert_eq!(model.requests().len(), 1, "{name}");
            client.close().await;
        }
    })
    .await;
}

/// LG-01 with legacy servers, LG-02 with modern ones.
#[tokio::test]
async fn log_lines_come_from_the_level_up() {
    use LogLevel::{Debug, Error, Info, Warning};
    within("logging", async {
        for (name, server) in interactive_servers().await {
            let client = Client::connect(server).await.unwrap();
            client.set_log_level(Warning).await.unwrap();
            assert_eq!(logged_levels(&client, &CallOptions::new()).await, [Warning, Error], "{name}");
            if client.peer().await.unwrap().era() == Era::Modern {
                let options = CallOptions::new().log_level(Debug);
                assert_eq!(logged_levels(&client, &options).await, [Debug, Info, Warning, Error], "{name}");
            }
            client.close().await;
        }
    })
    .await;
}

/// Returns the levels of the server's log lines, up to its last one.
async fn logged_levels(client: &Client, options: &CallOptions) -> Vec<LogLevel> {
    let mut events = client.events();
    client.call_tool_with("mumble", &Value::Null, options).await.unwrap();
    let mut levels = Vec::new();
    while levels.last() != Some(&LogLevel::Error) {
        if let Event::Notification(said) = events.next().await.unwrap()
            && let Topic::Log(log) = said.topic()
        {
            levels.push(LogMessage::decode(log).unwrap().level);
        }
    }
    levels
}

/// RS-05, CP-01, CP-02: a template with several operators is filled in with the server's
/// suggestions.
#[tokio::test]
async fn a_template_is_completed_expanded_and_read() {
    within("templates", async {
        for (name, server) in interactive_servers().await {
            let client = Client::connect(server).await.unwrap();
            let templates = client.list_resource_templates().await.unwrap();
            let uri_template = &*templates[0].uri_template;
            let template = Template::parse(uri_template).unwrap();
            assert_eq!(template.variables().collect::<Vec<_>>(), ["deck", "height"]);
            let reference = Reference::Resource(uri_template);
            let mut chosen = BTreeMap::new();
            let deck = client.complete(&reference, "deck", "g", &chosen).await.unwrap();
            assert_eq!((deck.values.len(), deck.total, deck.has_more), (1, Some(1), false), "{name}");
            chosen.insert("deck".to_owned(), deck.values[0].to_string());
            let heights = client.complete(&reference, "height", "", &chosen).await.unwrap();
            let [low, high] = &*heights.values else { panic!("{heights:?}") };

            let values = BTreeMap::from([
                ("deck".to_owned(), Variable::from(&*chosen["deck"])),
                ("height".to_owned(), Variable::List(vec![low.to_string(), high.to_string()])),
            ]);
            let uri = template.expand(&values).unwrap();
            let read = client.read_resource(&uri).await.unwrap();
            let ResourceBody::Text(text) = &read.contents[0].body else { panic!("{read:?}") };
            assert_eq!(text.get(), "asked for rig://mast/gun?height=12&height=15", "{name}");
            client.close().await;
        }
    })
    .await;
}

/// TN-01, TN-04, TN-05, TN-06: the tasks extension, which rmcp has for modern connections only.
#[tokio::test]
async fn a_call_becomes_a_task() {
    within("tasks", async {
        for (name, server) in interactive_servers().await {
            if name.starts_with("legacy") {
                continue;
            }
            let desk = ScriptedPerson::new([accept_with(&json!({ "name": "Ann" })), ElicitResult::Decline]);
            let host = Host::new().elicitation(desk.clone());
            let client = Client::builder(server).handler(host).connect().await.unwrap();
            let spliced = client.call_tool("splice", &json!({})).await.unwrap();
            assert_eq!(spliced.text(), "spliced for Ann", "{name}");
            assert_eq!(desk.forms().len(), 1, "{name}: asked once");

            let options = CallOptions::new();
            let begun = client.call_tool_task("splice", &json!({}), &options).await.unwrap();
            let TaskOrResult::Task(handle) = begun else { panic!("{name}: it was answered at once") };
            assert_eq!(client.task(&handle).await.unwrap().status, TaskStatus::InputRequired, "{name}");
            let error = client.wait_task(&handle, &options).await.unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::Cancelled), "{name}");

            let begun = client.call_tool_task("splice", &json!({}), &options).await.unwrap();
            let TaskOrResult::Task(handle) = begun else { panic!("{name}: it was answered at once") };
            client.cancel_task(&handle).await.unwrap();
            let error = client.wait_task(&handle, &options).await.unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::Cancelled), "{name}");
            client.close().await;
        }
    })
    .await;
}
