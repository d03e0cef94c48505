//! Completion, resource templates, output schemas and linked files.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bowline::schema::{OutputCheck, check_output};
use bowline::templates::{Template, Value as Variable};
use bowline::types::{Content, ResourceBody};
use bowline::types::{ListItem as _, Tool};
use bowline::{Client, Json, Reference};
use serde_json::{Value, json};

use crate::{Everything, within};

/// CP-01, CP-02
#[tokio::test]
async fn arguments_are_completed() {
    within("completion", async {
        for everything in Everything::start_both().await {
            let client = everything.connect().await;
            let prompt = Reference::Prompt("completable-prompt");
            let suggested =
                async |reference: &Reference<'_>, argument: &str, value: &str, department: &str| {
                    let chosen = ("department".to_owned(), department.to_owned());
                    let context = BTreeMap::from_iter((!department.is_empty()).then_some(chosen));
                    let completion = client.complete(reference, argument, value, &context).await.unwrap();
                    completion.values.into_iter().map(String::from).collect::<Vec<_>>()
                };
            let all = ["Engineering", "Sales", "Marketing", "Support"];
            assert_eq!(suggested(&prompt, "department", "", "").await, all);
            assert_eq!(suggested(&prompt, "department", "S", "").await, ["Sales", "Support"]);
            // Arguments chosen before decide what is suggested.
            assert_eq!(suggested(&prompt, "name", "", "Sales").await, ["David", "Eve", "Frank"]);
            assert_eq!(suggested(&prompt, "name", "K", "Support").await, ["Kim"]);
            assert_eq!(suggested(&prompt, "name", "", "").await, [""; 0]);

            let templates = client.list_resource_templates().await.unwrap();
            let template = Reference::Resource(&templates[0].uri_template);
            assert_eq!(suggested(&template, "resourceId", "12", "").await, ["12"]);
            assert_eq!(suggested(&template, "resourceId", "none", "").await, [""; 0]);
            client.close().await;
        }
    })
    .await;
}

/// RS-05
#[tokio::test]
async fn templates_are_expanded_and_read() {
    within("templates", async {
        for everything in Everything::start_both().await {
            let client = everything.connect().await;
            let templates = client.list_resource_templates().await.unwrap();
            assert_eq!(templates.len(), 2);
            for (template, kind) in templates.iter().zip(["text", "blob"]) {
                let template = Template::parse(&template.uri_template).unwrap();
                assert_eq!(template.variables().collect::<Vec<_>>(), ["resourceId"]);
                let expand = |value: &str| {
                    let values = BTreeMap::from([("resourceId".to_owned(), Variable::from(value))]);
                    template.expand(&values).unwrap()
                };
                let uri = expand("7");
                let read = client.read_resource(&uri).await.unwrap();
                assert_eq!(*read.contents[0].uri, *uri);
                assert_eq!(matches!(read.contents[0].body, ResourceBody::Blob(_)), kind == "blob");
                // A variable is encoded within its place in the URI, and the server knows no such
                // resource.
                let hostile = expand("../../static/document/startup.md#");
                let place = format!("demo://resource/dynamic/{kind}/");
                assert!(!hostile.strip_prefix(&place).unwrap().contains(['/', '#']), "{hostile}");
                assert!(client.read_resource(&hostile).await.unwrap_err().server_error().is_some());
            }
            client.close().await;
        }
    })
    .await;
}

/// TL-05, TL-06
#[tokio::test]
async fn structured_results_are_checked() {
    within("structured content", async {
        for everything in Everything::start_both().await {
            let client = everything.connect().await;
            let revision = client.peer().await.unwrap().revision;
            let (weather, sum) =
                (tool(&client, "get-structured-content").await, tool(&client, "get-sum").await);
            for location in ["New York", "Chicago", "Los Angeles"] {
                let result = client.call_tool(&weather.name, &json!({ "location": location })).await.unwrap();
                assert_eq!(check_output(&weather, &result, revision), OutputCheck::Fits, "{location}");
            }
            let result = client.call_tool("get-sum", &json!({ "a": 1, "b": 2 })).await.unwrap();
            assert_eq!(check_output(&sum, &result, revision), OutputCheck::NoSchema);
            // Checked against another tool's output schema, the result lacks a required member.
            assert_eq!(check_output(&weather, &result, revision), OutputCheck::Missing);

            // With one member's type changed, the result no longer fits: humidity is not a string.
            let mut other: Value = weather.json().decode().unwrap();
            other["outputSchema"]["properties"]["humidity"] = json!({ "type": "string" });
            let other = Tool::decode(&Json::encode(&other).unwrap()).unwrap();
            let result = client.call_tool(&weather.name, &json!({ "location": "Chicago" })).await.unwrap();
            let OutputCheck::Violations(why) = check_output(&other, &result, revision) else {
                panic!("it fits")
            };
            assert_eq!(why.iter().map(|violation| &*violation.at).collect::<Vec<_>>(), ["/humidity"]);
            client.close().await;
        }
    })
    .await;
}

async fn tool(client: &Client, name: &str) -> Tool {
    let tools = client.list_tools().await.unwrap();
    tools.into_iter().find(|tool| &*tool.name == name).expect("it is offered")
}

/// TL-04, TL-11: one file as a link that can be read, and as an embedded resource.
#[tokio::test]
async fn a_file_is_linked_or_embedded() {
    within("files", async {
        for everything in Everything::start_both().await {
            let client = everything.connect().await;
            let compressed = async |name: &str, kind: &str| {
                let arguments =
                    json!({ "name": name, "data": "data:text/plain,bowline", "outputType": kind });
                client.call_tool("gzip-file-as-resource", &arguments).await.unwrap()
            };
            let linked = compressed("linked.gz", "resourceLink").await;
            let [Content::ResourceLink(link)] = &*linked.content else { panic!("{:?}", linked.content) };
            assert_eq!(link.mime_type().as_deref(), Some("application/gzip"));
            let read = client.read_resource(&link.uri).await.unwrap();
            let ResourceBody::Blob(linked) = &read.contents[0].body else { panic!("{read:?}") };

            let embedded = compressed("embedded.gz", "resource").await;
            let [Content::Resource(embedded)] = &*embedded.content else { panic!("{:?}", embedded.content) };
            let ResourceBody::Blob(embedded) = &embedded.resource.body else { panic!("{embedded:?}") };
            for blob in [linked, embedded] {
                let bytes = BASE64_STANDARD.decode(blob.get().as_bytes()).unwrap();
                assert!(bytes.starts_with(b"\x1f\x8b"), "{bytes:?}");
            }
            assert_eq!(linked.get(), embedded.get());
            client.close().await;
        }
    })
    .await;
}
