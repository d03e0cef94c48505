//! Logging, completion, resources, prompts, URL elicitation, cache hints and content.

use bowline_testkit::{self as testkit, Completion, HttpServer, Resource, StreamKind, Tool};
use serde_json::{Value, json};

use crate::support::{Client, Events, Reply, TEST_TIMEOUT, modern_client, modern_params, request};

async fn send(server: &HttpServer, method: &str, params: Value) -> Reply {
    let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
    modern_client(server.addr(), method, name.as_deref())
        .post(&request(1, method, modern_params(params)))
        .await
}

async fn error(client: &Client, method: &str, params: Value) -> Value {
    client.post(&request(1, method, params)).await.last()["error"].clone()
}

fn levels(messages: &[Value]) -> Vec<&str> {
    let said = messages.iter().filter(|message| message["method"] == "notifications/message");
    said.map(|message| message["params"]["level"].as_str().unwrap()).collect()
}

// LG-01, LG-02, LG-03
#[tokio::test]
async fn log_messages_respect_the_client_level() {
    let lines = [("debug", json!("low")), ("warning", json!({"deep": [1]})), ("emergency", json!(null))];
    let server = testkit::server().tool(Tool::logs("talk", lines)).run().await;
    let client = Client::legacy(server.addr()).await;
    let call = request(3, "tools/call", json!({"name": "talk"}));
    let all = client.post(&call).await.messages();
    assert_eq!(levels(&all), ["debug", "warning", "emergency"]);
    assert_eq!(all[1]["params"], json!({"level": "warning", "logger": "talk", "data": {"deep": [1]}}));
    client.result("logging/setLevel", json!({"level": "warning"})).await;
    assert_eq!(levels(&client.post(&call).await.messages()), ["warning", "emergency"]);
    assert_eq!(error(&client, "logging/setLevel", json!({"level": "loud"})).await["code"], -32602);

    let mut news = Events::open(&client, "GET", &Value::Null).await;
    server.wait_until(|s| s.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    assert_eq!(server.send_log_message("info", &json!("unheard")), 0);
    assert_eq!(server.send_log_message("error", &json!("heard")), 1);
    assert_eq!(news.next().await["params"]["data"], "heard");

    let silent = send(&server, "tools/call", json!({"name": "talk"})).await;
    assert_eq!(silent.messages().len(), 1);
    let mut params = modern_params(json!({"name": "talk"}));
    params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("emergency");
    let client = modern_client(server.addr(), "tools/call", Some("talk"));
    let told = client.post(&request(1, "tools/call", params)).await.messages();
    assert_eq!(levels(&told), ["emergency"]);
    assert_eq!(told[1]["result"]["content"][0]["text"], "done");
    let found = send(&server, "server/discover", json!({})).await.message()["result"].clone();
    assert_eq!(found["capabilities"]["logging"], json!({}));

    let quiet = testkit::server()
        .tool(Tool::logs("talk", [("error", json!(1))]))
        .without_capability("logging")
        .run()
        .await;
    let client = Client::legacy(quiet.addr()).await;
    assert_eq!(client.post(&call).await.messages().len(), 1);
    assert_eq!(error(&client, "logging/setLevel", json!({"level": "info"})).await["code"], -32601);
}

// CP-01, CP-02, CP-03
#[tokio::test]
async fn arguments_are_completed() {
    let many: Vec<String> = (0..150).map(|n| format!("t{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let server = testkit::server()
        .prompt("greet", "{word}")
        .completes(Completion::prompt("greet", "word", &["hello", "hi", "good day"]))
        .completes(Completion::prompt("greet", "word", &["hola"]).given("language", "es"))
        .completes(Completion::resource("db://{table}", "table", &many))
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    let prompt = json!({"type": "ref/prompt", "name": "greet"});
    let typed = json!({"name": "word", "value": "h"});
    let plain = client.result("completion/complete", json!({"ref": prompt, "argument": typed})).await;
    assert_eq!(plain["completion"], json!({"values": ["hello", "hi"], "total": 2, "hasMore": false}));
    let context = json!({"arguments": {"language": "es"}});
    let spanish = json!({"ref": prompt, "argument": typed, "context": context});
    assert_eq!(client.result("completion/complete", spanish).await["completion"]["values"], json!(["hola"]));
    let tables = json!({
        "ref": {"type": "ref/resource", "uri": "db://{table}"},
        "argument": {"name": "table", "value": "t"},
    });
    let tables = send(&server, "completion/complete", tables).await.message()["result"]["completion"].clone();
    assert_eq!((tables["values"].as_array().unwrap().len(), &tables["total"]), (100, &json!(150)));
    assert_eq!(tables["hasMore"], true);
    let other = json!({"ref": prompt, "argument": {"name": "other", "value": ""}});
    assert_eq!(client.result("completion/complete", other).await["completion"]["values"], json!([]));
    let unknown = json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": typed});
    assert_eq!(error(&client, "completion/complete", unknown).await["code"], -32602);

    let without = testkit::server().prompt("greet", "").without_capability("completions").run().await;
    let client = Client::legacy(without.addr()).await;
    let params = json!({"ref": prompt, "argument": typed});
    assert_eq!(error(&client, "completion/complete", params).await["code"], -32601);
}

// RS-01, RS-02, RS-05
#[tokio::test]
async fn resources_of_all_kinds_are_read() {
    let server = testkit::server()
        .resource_with(Resource::blob("file:///a.bin", "application/x", &[0, 1, 2]).member("size", json!(3)))
        .resource_with(
            Resource::text("file:///folder", "one")
                .content(json!({"uri": "file:///folder/2", "blob": "AA=="})),
        )
        .resource_with(Resource::text("file:///empty", "").empty())
        .template("db://{table}/{+path}")
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    let read = |uri: &'static str| client.result("resources/read", json!({"uri": uri}));
    let listed = client.result("resources/list", json!({})).await;
    assert_eq!(
        listed["resources"][0],
        json!({"uri": "file:///a.bin", "name": "a.bin", "mimeType": "application/x", "size": 3})
    );
    assert_eq!(
        read("file:///a.bin").await["contents"],
        json!([{"uri": "file:///a.bin", "mimeType": "application/x", "blob": "AAEC"}])
    );
    assert_eq!(read("file:///folder").await["contents"][1]["blob"], "AA==");
    assert_eq!(read("file:///empty").await["contents"], json!([]));
    assert_eq!(read("db://users/a/b").await["contents"][0]["text"], "db://users/a/b");
    assert_eq!(error(&client, "resources/read", json!({"uri": "db:/users"})).await["code"], -32002);
    let missing = send(&server, "resources/read", json!({"uri": "file:///b"})).await.message();
    assert_eq!(
        missing["error"],
        json!({
            "code": -32602, "message": "Resource not found", "data": {"uri": "file:///b"},
        })
    );
}

// RS-03
#[tokio::test]
async fn only_subscribers_hear_of_a_resource() {
    let server = testkit::server().resource("file:///a", "").resource("file:///ab", "").run().await;
    let client = Client::legacy(server.addr()).await;
    let mut news = Events::open(&client, "GET", &Value::Null).await;
    server.wait_until(|s| s.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    assert_eq!(server.announce_resource("file:///a"), 0);
    client.result("resources/subscribe", json!({"uri": "file:///a"})).await;
    assert_eq!(server.announce_resource("file:///ab"), 0);
    assert_eq!(server.announce_resource("file:///a"), 1);
    assert_eq!(server.announce_resource("file:///a/below"), 1);
    assert_eq!(news.next().await["params"], json!({"uri": "file:///a"}));
    client.result("resources/unsubscribe", json!({"uri": "file:///a"})).await;
    assert_eq!(server.announce_resource("file:///a"), 0);

    let without =
        testkit::server().resource("file:///a", "").without_capability("resources.subscribe").run().await;
    let client = Client::legacy(without.addr()).await;
    assert_eq!(error(&client, "resources/subscribe", json!({"uri": "file:///a"})).await["code"], -32601);
    let found = send(&without, "server/discover", json!({})).await.message()["result"].clone();
    assert_eq!(found["capabilities"]["resources"], json!({"listChanged": true}));
}

// PM-01, PM-02
#[tokio::test]
async fn prompts_have_arguments_and_messages() {
    let definition = json!({"name": "p", "title": "P", "arguments": [{"name": "who", "required": true}]});
    let messages = json!([
        {"role": "user", "content": {"type": "text", "text": "Hello {who}"}},
        {"role": "assistant", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}},
    ]);
    let server = testkit::server().prompt_json(definition.clone(), messages).run().await;
    let client = Client::legacy(server.addr()).await;
    assert_eq!(client.result("prompts/list", json!({})).await["prompts"][0], definition);
    assert_eq!(error(&client, "prompts/get", json!({"name": "p"})).await["code"], -32602);
    let got = client.result("prompts/get", json!({"name": "p", "arguments": {"who": "you"}})).await;
    assert_eq!(got["messages"][0]["content"]["text"], "Hello you");
    assert_eq!(got["messages"][1]["role"], "assistant");
}

// EL-11
#[tokio::test]
async fn url_elicitation_is_required_first() {
    let pages = [("e1", "https://example.com/one"), ("e2", "https://example.com/two")];
    let server = testkit::server().tool(Tool::needs_url_elicitations("pay", pages)).run().await;
    let client = Client::legacy(server.addr()).await;
    let mut news = Events::open(&client, "GET", &Value::Null).await;
    server.wait_until(|s| s.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    let refused = error(&client, "tools/call", json!({"name": "pay"})).await;
    assert_eq!(refused["code"], -32042);
    assert_eq!(refused["data"]["elicitations"][1]["elicitationId"], "e2");
    assert_eq!(refused["data"]["elicitations"][0]["url"], "https://example.com/one");
    assert_eq!(server.complete_elicitation("e1"), 1);
    let told = news.next().await;
    assert_eq!(told["method"], "notifications/elicitation/complete");
    assert_eq!(told["params"], json!({"elicitationId": "e1"}));
    let refused = error(&client, "tools/call", json!({"name": "pay"})).await;
    assert_eq!(refused["data"]["elicitations"].as_array().unwrap().len(), 1);
    assert_eq!(server.executions("pay"), 0);

    let mut params = modern_params(json!({"name": "pay"}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {"url": {}}});
    let modern_one = modern_client(server.addr(), "tools/call", Some("pay"));
    let asked = modern_one.post(&request(1, "tools/call", params.clone())).await.message()["result"].clone();
    assert_eq!(asked["inputRequests"]["e2"]["params"]["mode"], "url");
    assert!(asked["inputRequests"]["e2"]["params"].get("elicitationId").is_none());
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({"e2": {"action": "decline"}});
    let declined = modern_one.post(&request(2, "tools/call", params)).await.message()["result"].clone();
    assert_eq!(declined["isError"], true);

    server.complete_elicitation("e2");
    assert_eq!(client.call("pay", json!({"sum": 3})).await, r#"{"sum":3}"#);
}

// CA-01
#[tokio::test]
async fn cache_hints_are_set_by_method() {
    let server = testkit::server()
        .tool("echo")
        .resource("file:///a", "")
        .cache("tools/list", json!({"ttlMs": -5, "cacheScope": "private"}))
        .cache("resources/read", json!({"ttlMs": null, "cacheScope": null}))
        .modern()
        .run()
        .await;
    let tools = send(&server, "tools/list", json!({})).await.message()["result"].clone();
    assert_eq!((&tools["ttlMs"], &tools["cacheScope"]), (&json!(-5), &json!("private")));
    let read = send(&server, "resources/read", json!({"uri": "file:///a"})).await.message()["result"].clone();
    assert!(read.get("ttlMs").is_none() && read.get("cacheScope").is_none());
    let list = send(&server, "resources/list", json!({})).await.message()["result"].clone();
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(60_000), &json!("public")));
}

// TL-04, TL-05
#[tokio::test]
async fn results_are_what_was_scripted() {
    let odd = json!({"content": "not a list", "isError": "perhaps", "x": 1});
    let server = testkit::server()
        .tool("gallery")
        .tool(Tool::named("nothing").structured(Value::Null).output_schema(json!({"type": "null"})))
        .tool(Tool::named("odd").result(odd.clone()))
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    let shown = client.result("tools/call", json!({"name": "gallery"})).await;
    let kinds: Vec<&str> =
        shown["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource", "resource", "hologram"]);
    let nothing = client.result("tools/call", json!({"name": "nothing"})).await;
    assert_eq!(nothing.get("structuredContent"), Some(&Value::Null));
    assert_eq!(client.result("tools/call", json!({"name": "odd"})).await, odd);
    let listed = client.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"][1]["outputSchema"], json!({"type": "null"}));
}
