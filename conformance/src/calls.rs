//! Decides which calls each scenario makes.

use std::collections::BTreeMap;

use bowline::skills::Mismatch;
use bowline::{Client, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::skills;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

pub(crate) async fn run_scenario(client: &Client, scenario: &str) -> Result {
    match scenario {
        "tools_call" => call(client, "add_numbers", json!({ "a": 5, "b": 3 })).await,
        "elicitation-sep1034-client-defaults" => {
            call(client, "test_client_elicitation_defaults", json!({})).await
        }
        "sse-retry" => call(client, "test_reconnection", json!({})).await,
        "sep-2322-client-request-state" => multi_round_trips(client).await,
        "http-standard-headers" => use_everything(client).await,
        "http-custom-headers" => call_from_context(client).await,
        "http-invalid-tool-headers" => call_all(client).await,
        "json-schema-2020-12-preservation" => echo_schema(client).await,
        "sep-2640-client-no-prefetch" => skills::list(client).await.map(drop),
        "sep-2640-client-verify-digest" => skills::expect_mismatch(client, Mismatch::Digest).await,
        "sep-2640-client-verify-size" => skills::expect_mismatch(client, Mismatch::Size).await,
        "sep-2640-client-verify-frontmatter" => skills::expect_mismatch(client, Mismatch::Frontmatter).await,
        // A list and a call, because each may be refused for its own reasons.
        login if login.starts_with("auth/") => call(client, "test-tool", json!({})).await,
        // `initialize`, `request-metadata`, `json-schema-ref-no-deref`: connecting and listing
        // tools is enough.
        _ => client.list_tools().await.map(drop).map_err(Into::into),
    }
}

/// Calls a tool after listing the tools: headers that mirror arguments come from the newest list.
async fn call(client: &Client, tool: &str, arguments: Value) -> Result {
    client.list_tools().await?;
    client.call_tool(tool, &arguments).await?;
    Ok(())
}

async fn multi_round_trips(client: &Client) -> Result {
    client.list_tools().await?;
    let none = json!({});
    // The first two concurrently: their states must not mix.
    let (state, unrelated) = tokio::join!(
        client.call_tool("test_mrtr_echo_state", &none),
        client.call_tool("test_mrtr_unrelated", &none)
    );
    state?;
    unrelated?;
    client.call_tool("test_mrtr_no_state", &none).await?;
    client.call_tool("test_mrtr_no_result_type", &none).await?;
    Ok(())
}

async fn use_everything(client: &Client) -> Result {
    for tool in client.list_tools().await? {
        client.call_tool(&tool.name, &json!({})).await?;
    }
    for resource in client.list_resources().await? {
        client.read_resource(&resource.uri).await?;
    }
    client.list_resource_templates().await?;
    for prompt in client.list_prompts().await? {
        client.get_prompt(&prompt.name, &BTreeMap::new()).await?;
    }
    Ok(())
}

async fn call_from_context(client: &Client) -> Result {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Context {
        tool_calls: Vec<ToolCall>,
    }
    #[derive(Deserialize)]
    struct ToolCall {
        name: String,
        arguments: Value,
    }
    let context: Context = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    client.list_tools().await?;
    for ToolCall { name, arguments } in context.tool_calls {
        client.call_tool(&name, &arguments).await?;
    }
    Ok(())
}

async fn call_all(client: &Client) -> Result {
    for tool in client.list_tools().await? {
        client.call_tool(&tool.name, &json!({ "region": "us-west1" })).await?;
    }
    Ok(())
}

/// Sends a schema back as the library received it.
async fn echo_schema(client: &Client) -> Result {
    let tools = client.list_tools().await?;
    let tool =
        tools.iter().find(|tool| &*tool.name == "json_schema_2020_12_tool").ok_or("the tool is missing")?;
    let schema: &Json = &tool.input_schema;
    client.call_tool("json_schema_echo", &json!({ "schema": schema })).await?;
    Ok(())
}
