//! Calls a tool through three layers: the first counts how calls end, the second removes what must not
//! leave this machine, and the third asks a person, who sees what would be sent.
//!
//! `cargo run -p bowline --example layers -- http://127.0.0.1:3001/mcp echo message=hello email=a@b.example`

mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write, stdout};
use std::sync::{Arc, Mutex, PoisonError};

use bowline::{CallReport, Client, ErrorKind, Json, Layer, LayerFuture, OutgoingRequest, Refusal, Server};
use serde_json::{Map, Value};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    run(server, &rest, ask_at_terminal, &mut stdout()).await
}

/// Asks a question at the terminal. Returns whether the answer is yes.
fn ask_at_terminal(question: String) -> bool {
    println!("{question}? [y/n]");
    matches!(std::io::stdin().lines().next(), Some(Ok(line)) if line.trim() == "y")
}

/// Members of arguments that no server is to receive.
const PRIVATE_MEMBERS: [&str; 3] = ["email", "password", "token"];

/// Removes private members from the arguments of tools, however deep they are.
struct Redaction;

impl Layer for Redaction {
    fn observes(&self, method: &str) -> bool {
        method == "tools/call"
    }

    fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
        Box::pin(async move {
            let Some(params) = request.params() else { return Ok(()) };
            let unreadable = |_| Refusal::new("the arguments cannot be read");
            let mut params: Value = params.decode().map_err(unreadable)?;
            redact(&mut params["arguments"]);
            request.set_params(Json::encode(&params).map_err(|_| Refusal::new("they cannot be written"))?);
            Ok(())
        })
    }
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !PRIVATE_MEMBERS.contains(&name.as_str()));
            members.values_mut().for_each(redact);
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

/// Asks a person before a tool is called.
struct Approval {
    /// May block.
    ask: fn(String) -> bool,
}

impl Layer for Approval {
    fn observes(&self, method: &str) -> bool {
        method == "tools/call"
    }

    fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
        Box::pin(async move {
            let arguments = request.params().and_then(|params| params.member("arguments"));
            let arguments = arguments.as_ref().map_or("no arguments", |arguments| arguments.as_str());
            let tool = request.tool().unwrap_or_default();
            let question = format!("call {tool} of {} with {arguments}", request.server());
            let ask = self.ask;
            // The time limits of the call begin afterwards.
            match tokio::task::spawn_blocking(move || ask(question)).await {
                Ok(true) => Ok(()),
                _ => Err(Refusal::new("the user refused")),
            }
        })
    }
}

/// Counts the calls of each tool by their outcome.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<BTreeMap<(String, &'static str), u64>>>);

impl Layer for Metrics {
    fn observes(&self, method: &str) -> bool {
        method == "tools/call"
    }

    fn on_end(&self, request: &OutgoingRequest, report: &CallReport) {
        let tool = request.tool().unwrap_or_default().to_owned();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((tool, report.outcome.as_str())).or_default() += 1;
    }
}

/// Calls the tool that comes first in `rest` with the arguments after it, if the person agrees.
pub(crate) async fn run(
    server: Server,
    rest: &[String],
    ask: fn(String) -> bool,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let [tool, arguments @ ..] = rest else { return Err("which tool?".into()) };
    // A value that is not JSON is a string.
    let arguments: Map<String, Value> = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.parse().unwrap_or_else(|_| value.into())))
        .collect();

    // Layers see a request in this order. One that refuses it hides it from those after it.
    let metrics = Metrics::default();
    let client = Client::builder(server)
        .layer(metrics.clone())
        .layer(Redaction)
        .layer(Approval { ask })
        .connect()
        .await?;
    match client.call_tool(tool, &arguments).await {
        Ok(result) => writeln!(out, "{}", result.text())?,
        Err(error) => match error.kind() {
            ErrorKind::LayerRefused(reason) => writeln!(out, "not sent: {reason}")?,
            _ => return Err(error.into()),
        },
    }
    client.close().await;
    for ((tool, outcome), count) in &*metrics.0.lock().unwrap_or_else(PoisonError::into_inner) {
        writeln!(out, "{tool} {outcome}: {count}")?;
    }
    Ok(())
}
