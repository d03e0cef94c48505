//! Starts a task, for `bowline call --task`.

use bowline::types::CallToolResult;
use bowline::{CallOptions, Client, Server, TaskOrResult};
use serde::Serialize;
use serde_json::json;

use super::is_stdio;
use super::quoting::{format_flag, server_argument};
use super::row::handle_json;
use crate::failure::{Failure, Outcome};
use crate::print::progress::Bar;
use crate::session::SessionRetention;
use crate::settings::Settings;
use crate::tasks::{TaskRecord, TaskStore};

/// Outcome of a call that was to become a task.
pub(crate) enum TaskStart {
    /// It became a task, whose id has been printed.
    Started,
    /// The server returned the result at once.
    Finished(Box<CallToolResult>),
}

/// Calls a tool as a task, records it, and prints how to wait for it.
pub(crate) async fn start_task(
    settings: &Settings,
    client: &Client,
    stay: &SessionRetention,
    server: &Server,
    typed: Option<&str>,
    tool: &str,
    arguments: &(impl Serialize + ?Sized),
) -> Outcome<TaskStart> {
    let printer = &settings.printer;
    let bar = Bar::start(printer, tool);
    let listener = bar.updater();
    let options = CallOptions::new().on_progress(move |progress| listener.update(&progress));
    let begun = client.call_tool_task(tool, arguments, &options).await;
    bar.finish();
    let handle = match begun.map_err(|error| Failure::call(&error, server, &settings.command_line))? {
        TaskOrResult::Task(handle) => handle,
        TaskOrResult::Result(result) => {
            printer.note(&format!("`{}` ran the call directly; no task was created", server.name));
            return Ok(TaskStart::Finished(Box::new(result.into_result())));
        }
    };
    let kept = TaskRecord::new(server, tool, handle.clone());
    let store = TaskStore::open(settings);
    let held = match store.as_ref().map(|store| store.save(&kept)) {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            printer.note(&format!("the task could not be recorded: {error}; only its id identifies it"));
            false
        }
        None => {
            printer.note("the task was not recorded: HOME is not set; only its id identifies it");
            false
        }
    };
    // Some servers forget a task together with the session that it was started in.
    stay.keep(move |session| {
        if let Some(store) = store.filter(|_| held) {
            store.update(&kept.with_session(session));
        }
    });
    if printer.is_json() {
        printer.write_json(
            &json!({ "task": handle_json(&handle), "kept": held, "server": server.name }).to_string(),
        )?;
        return Ok(TaskStart::Started);
    }
    printer.write_text(&handle.id)?;
    let spelled = server_argument(typed);
    let wait = format_flag("--wait", &handle.id);
    let wait = format!("`bowline tasks {spelled} {wait}` waits for it");
    printer.note(&if settings.pool_use.is_attached() {
        format!(
            "the task is running; {wait}. `bowline serve` ends `{}` five minutes after the last command: a task that it \
             does not store is lost then",
            server.name
        )
    } else if is_stdio(server) {
        format!(
            "`{}` is a local command and ends with this one. If it stores its tasks, {wait}; otherwise the task is \
             lost: call again without --task, and bowline waits for the result",
            server.name
        )
    } else {
        format!("the task is running; {wait}")
    });
    Ok(TaskStart::Started)
}
