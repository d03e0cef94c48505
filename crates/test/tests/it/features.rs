//! Tools, prompts, resources, progress and elicitation, in both eras and on both transports.

use bowline::host::Host;
use bowline::schema::Schema;
use bowline::{ErrorKind, Json};
use bowline_test::{ElicitationReply, FakeServer, ToolError, ToolReply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::everywhere;

#[tokio::test]
async fn tools_return_text_json_and_errors() {
    let add = |server: FakeServer| {
        server
            .tool("text", |args| format!("hello {}", args["name"].as_str().unwrap_or_default()))
            .tool("json", |args| json!({ "given": args }))
            .tool("raw", |_| ToolReply::raw(json!({ "content": [], "isError": true })))
            .tool("fails", |_| Err::<String, _>(ToolError::new("out of rope")))
            .tool("refuses", |_| Err::<String, _>(ToolError::protocol(-32000, "no rope")))
            .define("text", json!({ "description": "Says hello." }))
    };
    for (server, client) in everywhere(&Host::new(), add).await {
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.len(), 5);
        assert_eq!(tools[0].description().unwrap(), "Says hello.");
        let text = client.call_tool("text", &json!({ "name": "knot" })).await.unwrap();
        assert_eq!((&*text.text(), text.is_error), ("hello knot", false));
        let json = client.call_tool("json", &json!({ "a": 1 })).await.unwrap();
        assert_eq!(
            json.structured.as_ref().unwrap().decode::<Value>().unwrap(),
            json!({ "given": { "a": 1 } })
        );
        assert!(client.call_tool("raw", &()).await.unwrap().is_error);
        let failed = client.call_tool("fails", &()).await.unwrap();
        assert_eq!((&*failed.text(), failed.is_error), ("out of rope", true));
        let refused = client.call_tool("refuses", &()).await.unwrap_err();
        assert_eq!(refused.server_error().unwrap().code, -32000);
        let unknown = client.call_tool("unknown", &()).await.unwrap_err();
        assert!(matches!(unknown.kind(), ErrorKind::Server(error) if error.code == -32602));

        let server = server.control();
        server.assert_called("text", 1);
        server.assert_called("unknown", 0);
        assert_eq!(server.calls("json"), [json!({ "a": 1 })]);
        assert_eq!(server.calls("raw"), [json!({})], "no arguments are an empty object");
        let received = server.received();
        let calls = received.iter().filter(|one| one.method == "tools/call");
        let names: Vec<_> = calls.map(|one| one.params["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["text", "json", "raw", "fails", "refuses", "unknown"]);
        client.close().await;
    }
}

#[tokio::test]
async fn prompts_resources_and_instructions_are_served() {
    let add = |server: FakeServer| {
        server
            .name("shelf")
            .instructions("Be brief.")
            .prompt("greet", |args| format!("Greet {}.", args["who"].as_str().unwrap_or("everybody")))
            .resource("note:///1", "a note")
    };
    for (_server, client) in everywhere(&Host::new(), add).await {
        assert_eq!(client.name(), "shelf");
        assert_eq!(client.peer().await.unwrap().instructions.as_deref(), Some("Be brief."));
        assert_eq!(&*client.list_prompts().await.unwrap()[0].name, "greet");
        let prompt =
            client.get_prompt("greet", &[("who".to_owned(), "Ada".to_owned())].into()).await.unwrap();
        assert_eq!(prompt.messages.len(), 1);
        assert_eq!(&*client.list_resources().await.unwrap()[0].uri, "note:///1");
        let read = client.read_resource("note:///1").await.unwrap();
        assert_eq!(read.contents.len(), 1);
        assert!(client.read_resource("note:///2").await.unwrap_err().server_error().is_some());
        client.close().await;
    }
}

fn with_order_tool(server: FakeServer) -> FakeServer {
    server.async_tool("order", |cx, args| async move {
        cx.progress(1.0, Some(2.0), Some("looking it up"));
        let schema = json!({ "type": "object", "properties": { "size": { "type": "string" } } });
        match cx.elicit_form("Which size?", schema).await? {
            ElicitationReply::Accept(form) => {
                cx.progress(2.0, Some(2.0), None);
                Ok(format!("{} {}", form["size"].as_str().unwrap(), args["item"].as_str().unwrap()))
            }
            _ => Err(ToolError::new("nothing was ordered")),
        }
    })
}

#[tokio::test]
async fn a_tool_reports_progress_and_asks_with_a_form() {
    let host = Host::new().on_form(async |request| {
        assert_eq!(&*request.form.message, "Which size?");
        request.accept(json!({ "size": "large" }))
    });
    for (server, client) in everywhere(&host, with_order_tool).await {
        let mut call = client.call("order").arguments(&json!({ "item": "rope" })).start();
        let mut progress = call.progress();
        let collect = async {
            let mut messages = Vec::new();
            while let Some(step) = progress.next().await {
                messages.push(step.message.as_deref() == Some("looking it up"));
            }
            messages
        };
        let (result, messages) = tokio::join!(call, collect);
        assert_eq!(result.unwrap().text(), "large rope");
        assert_eq!(messages, [true, false]);
        server.control().assert_called("order", 1);
        client.close().await;
    }
}

#[tokio::test]
async fn a_form_is_not_sent_to_a_client_that_did_not_declare_it() {
    for (_server, client) in everywhere(&Host::new(), with_order_tool).await {
        let result = client.call_tool("order", &json!({ "item": "rope" })).await.unwrap();
        assert!(result.is_error);
        assert_eq!(result.text(), "the client does not offer elicitation/create");
        client.close().await;
    }
}

#[tokio::test]
#[should_panic(expected = "the tool echo ran 0 times instead of 1")]
async fn a_missing_call_fails_the_assertion() {
    FakeServer::new().tool("echo", |args| args).serve_io().assert_called("echo", 1);
}

/// The schema of a typed tool is that of its type: it accepts what the type accepts, and arguments
/// that do not fit are refused.
#[tokio::test]
async fn typed_tool_has_the_schema_of_its_arguments() {
    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Knot {
        name: String,
        turns: Option<u8>,
    }
    let add = |server: FakeServer| {
        server.typed_tool("tie", |knot: Knot| format!("{} x{}", knot.name, knot.turns.unwrap_or(1)))
    };
    for (_server, client) in everywhere(&Host::new(), add).await {
        let tools = client.list_tools().await.unwrap();
        let schema = Schema::compile(&tools[0].input_schema).unwrap();
        for (fits, arguments) in [
            (true, json!({ "name": "bowline" })),
            (true, json!({ "name": "bowline", "turns": 2 })),
            (false, json!({ "turns": 2 })),
            (false, json!({ "name": "bowline", "turns": 256 })),
        ] {
            let checked = schema.check(&Json::encode(&arguments).unwrap());
            assert_eq!(checked.is_ok(), fits, "{arguments}");
            match client.call_tool("tie", &arguments).await {
                Ok(result) => assert!(fits && result.text().starts_with("bowline x"), "{arguments}"),
                Err(error) => assert!(!fits && error.server_error().unwrap().code == -32602, "{error}"),
            }
        }
        let knot = Knot { name: "bowline".into(), turns: Some(3) };
        assert_eq!(client.call_tool("tie", &knot).await.unwrap().text(), "bowline x3");
        client.close().await;
    }
}
