//! A small agent: it opens the servers of an `mcpServers` file, gives their tools to a model, and runs
//! the calls that the model asks for.
//!
//! `cargo run -p bowline --example agent -- mcp.json script.json`
//!
//! The model is a script, so that the example needs no provider: a list of `tool_use` blocks as the
//! Anthropic API returns them, `[{ "name": "files__read", "input": { "path": "notes.txt" } }]`.
//! `"stop_at": 2` in a block stands for a person who stops that call when its progress is at 2.

use std::collections::VecDeque;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use bowline::host::{FormRequest, Host, Root, SampleRequest};
use bowline::model::{ModelApi, ModelContext, ModelOptions, ModelResult};
use bowline::types::SamplingResult;
use bowline::{
    CallOptions, Config, ConnectionEventKind, Event, EventReceiver, LoadConfig as _, Registry, ServerEvent,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Shows a line to the person.
pub(crate) type Screen = Arc<dyn Fn(String) + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [servers, script] = &*args else { return Err("give a file of servers and one of calls".into()) };
    let mut script: VecDeque<Value> = serde_json::from_slice(&std::fs::read(script)?)?;
    // A host sends the request to its provider here.
    let model = async |_request: &Value| script.pop_front();
    run(Path::new(servers), model, Arc::new(|line| println!("{line}"))).await
}

/// Runs a model with the servers of a file until it asks for no more calls.
pub(crate) async fn run(
    servers: &Path,
    mut model: impl AsyncFnMut(&Value) -> Option<Value>,
    screen: Screen,
) -> Result<(), Box<dyn Error>> {
    let builder = Registry::builder().handler(host(&screen)?).track_tools();
    let (shown, mut changes) = (builder.events(), builder.events());
    let registry = builder.open(&Config::load(servers)?);
    let shown = tokio::spawn(show_events(shown, Arc::clone(&screen)));
    // A server that is down stops nothing: it is left out, and joins when it is back.
    registry.settled().await;

    let options = ModelOptions::new(ModelApi::Anthropic);
    let mut context = registry.model_context(&options).await;
    screen(format!("{} tools", context.tools.len()));
    for left_out in &context.omissions {
        screen(format!("left out: {}: {}", left_out.server, left_out.reason));
    }
    let mut messages = Vec::new();
    loop {
        if std::iter::from_fn(|| changes.try_next()).filter(changes_tools).count() > 0 {
            context = registry.model_context(&options).await;
        }
        let (system, tools) = (&context.instructions, context.definitions());
        let request = json!({ "system": system, "tools": tools, "messages": messages });
        let Some(block) = model(&request).await else { break };
        let result = call(&registry, &context, &block, &screen).await;
        screen(format!("{}: {}", if result.is_error { "failed" } else { "result" }, result.text));
        let result = json!({ "type": "tool_result", "tool_use_id": block["id"],
            "content": result.content, "is_error": result.is_error });
        messages.push(json!({ "role": "assistant", "content": [block] }));
        messages.push(json!({ "role": "user", "content": [result] }));
    }

    for status in registry.statuses() {
        let (state, recoveries) = (status.state.as_str(), status.health.recoveries);
        screen(format!("{}: {state}, recovered {recoveries} times", status.name));
    }
    // Ends all sessions and processes, and with the registry its events end.
    registry.close().await;
    drop(registry);
    Ok(shown.await?)
}

/// Runs one call of the model, with progress, until it ends or the person stops it.
async fn call(registry: &Registry, context: &ModelContext, block: &Value, screen: &Screen) -> ModelResult {
    let (name, stop_at) = (block["name"].as_str().unwrap_or_default(), block["stop_at"].as_f64());
    screen(format!("call: {name} {}", block["input"]));
    let stop = Arc::new(Notify::new());
    let options = CallOptions::new().on_progress({
        let (screen, stop) = (Arc::clone(screen), Arc::clone(&stop));
        move |step| {
            let total = step.total.map_or_else(String::new, |total| format!(" of {total}"));
            screen(format!("progress: {}{total}", step.progress));
            if stop_at.is_some_and(|at| step.progress >= at) {
                stop.notify_one();
            }
        }
    });
    tokio::select! {
        called = registry.call_model(context, name, &block["input"], &options) => {
            // A failure is a result for the model, which can correct itself.
            called.unwrap_or_else(|error| context.error_result(&error))
        }
        // Dropping the call cancels it on the server.
        () = stop.notified() => context.error_result("the person stopped this call"),
    }
}

/// Answers what servers ask. A host shows a dialog for each, and asks its own model.
fn host(screen: &Screen) -> Result<Host, Box<dyn Error>> {
    let (forms, samples) = (Arc::clone(screen), Arc::clone(screen));
    let on_form = move |request: FormRequest| {
        forms(format!("form: {} asks: {}", request.server, request.form.message));
        std::future::ready(request.accept(json!({ "name": "Ada" })))
    };
    let on_sampling = move |request: SampleRequest| {
        samples(format!("sampling: {} asks for {} tokens", request.server, request.request.max_tokens));
        std::future::ready(Ok(SamplingResult::text("scripted", "A bowline.")))
    };
    let folder = Root::folder(std::env::current_dir()?)?.with_name("project");
    Ok(Host::new().on_form(on_form).on_sampling(on_sampling).roots([folder]))
}

/// Whether the model's tools must be collected again. While a server reconnects they stay as they
/// are: calls wait for it.
fn changes_tools(event: &ServerEvent) -> bool {
    use ConnectionEventKind::{Connected, Recovered};
    match &event.event {
        Event::ListChanged(_) | Event::Missed(_) => true,
        Event::Connection(change) => matches!(change.kind, Connected | Recovered),
        _ => false,
    }
}

/// Shows connections that come and go, and tools that change.
async fn show_events(mut events: EventReceiver<ServerEvent>, screen: Screen) {
    while let Some(ServerEvent { server, event, .. }) = events.next().await {
        match event {
            Event::Connection(change) => screen(format!("event: {server} {}", change.kind.as_str())),
            Event::ListChanged(change) => {
                let (list, added, removed) = (change.list.as_str(), &change.added, &change.removed);
                screen(format!("event: {server} {list}: added {added:?}, removed {removed:?}"));
            }
            _ => {}
        }
    }
}
