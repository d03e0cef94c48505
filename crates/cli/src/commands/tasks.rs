//! `bowline tasks`, and the beginning of one for `bowline call --task`

use std::time::SystemTime;

use bowline::config::{Server, Transport};
use bowline::view::{CallToolResult, Progress, Task};
use bowline::wire::Id;
use bowline::{CallOptions, Client, ErrorKind, TaskEnd, TaskHandle, TaskOr};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::TasksArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::print::content::Viewer;
use crate::print::progress::Bar;
use crate::print::table::Table;
use crate::print::{Printer, clock, escape};
use crate::session;
use crate::settings::Settings;
use crate::settings::words::Words;
use crate::tasks::{Kept, Store};

pub(super) async fn run(args: TasksArgs, settings: &Settings) -> Outcome {
    let TasksArgs { words, what, content, host: _, target } = args;
    let limits = CallOptions::new();
    let limits = target.timeout.map_or(limits.clone(), |idle| limits.timeout(idle));
    let limits = target.max_timeout.map_or(limits.clone(), |total| limits.max_timeout(total));
    let name = Words::new("tasks", "", words, &target.command)?.end()?;
    let server = settings.server(name.as_deref(), target)?;
    let server = Asked { settings, server: &server, spelled: spelled(name.as_deref()) };
    match (what.wait, what.result, what.cancel) {
        (Some(id), ..) => {
            let viewer =
                Viewer::new(settings, content, "task").map_err(Failure::usage)?.from(name.as_deref());
            server.wait(&id, &limits, &viewer).await
        }
        (_, Some(id), _) => {
            let viewer =
                Viewer::new(settings, content, "task").map_err(Failure::usage)?.from(name.as_deref());
            server.result(&id, &viewer).await
        }
        (.., Some(id)) => server.cancel(&id).await,
        _ => server.list().await,
    }
}

/// What came of a call that was to become a task.
pub(super) enum Begun {
    /// It did; that was told.
    Task,
    /// It was answered at once.
    Done(Box<CallToolResult>),
}

/// Calls a tool as a task, keeps it, and says how to go on.
pub(super) async fn begin(
    settings: &Settings,
    client: &Client,
    server: &Server,
    typed: Option<&str>,
    tool: &str,
    arguments: &(impl Serialize + ?Sized),
) -> Outcome<Begun> {
    let printer = &settings.printer;
    let bar = Bar::start(printer, tool);
    let listener = bar.clone();
    let options = CallOptions::new().on_progress(move |progress| listener.update(&progress));
    let begun = client.call_tool_task(tool, arguments, &options).await;
    bar.finish();
    let handle = match begun.map_err(|error| Failure::call(&error, server))? {
        TaskOr::Task(handle) => handle,
        TaskOr::Done(result) => {
            printer.note(&format!("`{}` answered at once: there is no task", server.name));
            return Ok(Begun::Done(Box::new(result)));
        }
    };
    let kept = Kept::new(server, tool, handle.clone());
    let held = match Store::of(settings).map(|store| store.keep(&kept)) {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            printer.note(&format!("the task could not be kept: {error}; its id is all there is of it"));
            false
        }
        None => {
            printer.note("the task was not kept: HOME is not set; its id is all there is of it");
            false
        }
    };
    if printer.is_json() {
        printer.json(
            &json!({ "task": handle_json(&handle), "kept": held, "server": server.name }).to_string(),
        )?;
        return Ok(Begun::Task);
    }
    printer.text(&handle.id)?;
    if is_started(server) {
        printer.note(&format!(
            "`{}` is started by a command, and ends with this one: a task that it keeps in memory is lost. \
             Without --task the call is waited for",
            server.name
        ));
    }
    let spelled = spelled(typed);
    printer.note(&format!("it goes on; `bowline tasks {spelled} --wait {}` waits for it", word(&handle.id)));
    Ok(Begun::Task)
}

/// The server that is meant, and how it was.
struct Asked<'a> {
    settings: &'a Settings,
    server: &'a Server,
    spelled: String,
}

impl Asked<'_> {
    fn printer(&self) -> &Printer {
        &self.settings.printer
    }

    async fn list(&self) -> Outcome {
        let store = Store::of(self.settings);
        let kept = store.as_ref().map(|store| store.tasks(self.server)).unwrap_or_default();
        let rows = session::with_outcome(self.settings, self.server, async |client| {
            let mut rows = Vec::new();
            for kept in kept.iter().take(MOST_LISTED) {
                let state = match client.task(&kept.handle).await {
                    Ok(task) => State::Seen(task),
                    Err(error) => match error.kind() {
                        ErrorKind::Task(end) => {
                            if let Some(store) = &store {
                                store.forget(kept);
                            }
                            State::Over(*end)
                        }
                        _ => return Err(Failure::call(&error, self.server)),
                    },
                };
                rows.push(Row { handle: kept.handle.clone(), tool: Some(kept.tool.clone()), state });
            }
            match client.list_tasks().await {
                Ok(listed) => {
                    let others = listed
                        .items
                        .into_iter()
                        .filter(|task| !rows.iter().any(|row| row.handle.id == task.id));
                    let others: Vec<_> = others.take(MOST_LISTED).collect();
                    rows.extend(others.into_iter().map(|task| Row {
                        handle: client.handle_of(&task),
                        tool: None,
                        state: State::Seen(task),
                    }));
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotOffered(_)) => {}
                Err(error) => return Err(Failure::call(&error, self.server)),
            }
            Ok(rows)
        })
        .await?;
        let printer = self.printer();
        if printer.is_json() {
            let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
            printer.json(&Value::from(rows).to_string())?;
            return Ok(Exit::Ok);
        }
        if rows.is_empty() {
            printer.note(&format!("no task of `{}` is known", self.server.name));
            return Ok(Exit::Ok);
        }
        let mut table = Table::new(["ID", "STATUS", "AGE", "TOOL", "MESSAGE"]);
        for row in &rows {
            table.row(row.cells());
        }
        printer.layout(&table.render(printer))?;
        if is_started(self.server) && rows.iter().any(|row| matches!(row.state, State::Over(TaskEnd::Gone))) {
            printer.note(ENDED_WITH_IT);
        }
        Ok(Exit::Ok)
    }

    async fn wait(&self, id: &str, limits: &CallOptions, viewer: &Viewer<'_>) -> Outcome {
        let printer = self.printer();
        let (store, kept) = self.kept(id)?;
        let ended = session::with_outcome(self.settings, self.server, async |client| {
            let handle = self.handle(client, kept.as_ref(), id).await?;
            let bar = Bar::start(printer, &format!("task {}", handle.id));
            let listener = bar.clone();
            let options = limits.clone().on_task(move |task| listener.update(&said(task)));
            let result = client.wait_task(&handle, &options).await;
            bar.finish();
            result.map_err(|error| self.failed(&error, store.as_ref(), kept.as_ref()))
        })
        .await;
        match ended {
            Ok(result) => self.show(kept.as_ref(), viewer, &result),
            Err(Failure::Signal(exit)) => {
                let id = word(id);
                printer.note(&format!(
                    "the task goes on; `bowline tasks {} --wait {id}` waits for it again",
                    self.spelled
                ));
                Err(Failure::Signal(exit))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn result(&self, id: &str, viewer: &Viewer<'_>) -> Outcome {
        let (store, kept) = self.kept(id)?;
        let result = session::with_outcome(self.settings, self.server, async |client| {
            let handle = self.handle(client, kept.as_ref(), id).await?;
            let failed = |error: bowline::Error| self.failed(&error, store.as_ref(), kept.as_ref());
            let task = client.task(&handle).await.map_err(failed)?;
            if !task.status.is_terminal() {
                let message = format!("the task has not ended: {}", stands(&task));
                let mut report = Report::new(Exit::Timeout, message);
                report.hint = Some(format!("`bowline tasks {} --wait {}` waits", self.spelled, word(id)));
                report.members.insert("task".into(), state_json(&task));
                return Err(report.into());
            }
            client.wait_task(&handle, &CallOptions::new()).await.map_err(failed)
        })
        .await?;
        self.show(kept.as_ref(), viewer, &result)
    }

    async fn cancel(&self, id: &str) -> Outcome {
        let printer = self.printer();
        let (store, kept) = self.kept(id)?;
        let task = session::with_outcome(self.settings, self.server, async |client| {
            let handle = self.handle(client, kept.as_ref(), id).await?;
            let cancelled = client.cancel_task(&handle).await;
            cancelled.map_err(|error| self.failed(&error, store.as_ref(), kept.as_ref()))
        })
        .await?;
        if printer.is_json() {
            printer.json(&state_json(&task).to_string())?;
        } else {
            printer.text(task.status.as_str())?;
            if !task.status.is_terminal() {
                printer.note("the server was told; it ends the task when it can");
            }
        }
        Ok(Exit::Ok)
    }

    fn show(&self, kept: Option<&Kept>, viewer: &Viewer<'_>, result: &CallToolResult) -> Outcome {
        super::call::show(self.printer(), viewer, result)?;
        if !result.is_error {
            return Ok(Exit::Ok);
        }
        if !self.printer().is_json() {
            let tool = kept.map_or_else(String::new, |kept| format!(" `{}`", kept.tool));
            self.printer().failure(&Report::new(Exit::Tool, format!("the tool{tool} reported an error")));
        }
        Ok(Exit::Tool)
    }

    /// The kept task that an id or its beginning means, if one does.
    fn kept(&self, id: &str) -> Outcome<(Option<Store>, Option<Kept>)> {
        let Some(store) = Store::of(self.settings) else { return Ok((None, None)) };
        let mut tasks = store.tasks(self.server);
        if let Some(at) = tasks.iter().position(|kept| *kept.handle.id == *id) {
            return Ok((Some(store), Some(tasks.swap_remove(at))));
        }
        tasks.retain(|kept| !id.is_empty() && kept.handle.id.starts_with(id));
        if tasks.len() > 1 {
            let ids: Vec<_> = tasks.iter().take(10).map(|kept| kept.handle.id.to_string()).collect();
            let message = format!("several tasks begin with `{id}`");
            return Err(Failure::usage_hint(message, format!("there are: {}", ids.join(", "))));
        }
        Ok((Some(store), tasks.pop()))
    }

    /// One that was not kept may be known to the server all the same.
    async fn handle(&self, client: &Client, kept: Option<&Kept>, id: &str) -> Outcome<TaskHandle> {
        match kept {
            Some(kept) => Ok(kept.handle.clone()),
            None => client.task_by_id(id).await.map_err(|error| Failure::call(&error, self.server)),
        }
    }

    /// A failure. A task that is gone is not kept any longer.
    fn failed(&self, error: &bowline::Error, store: Option<&Store>, kept: Option<&Kept>) -> Failure {
        if let (ErrorKind::Task(TaskEnd::Gone), Some(store), Some(kept)) = (error.kind(), store, kept) {
            store.forget(kept);
        }
        Failure::call(error, self.server)
    }
}

/// A task in the list.
struct Row {
    handle: TaskHandle,
    tool: Option<String>,
    state: State,
}

enum State {
    Seen(Task),
    /// The server does not know it.
    Over(TaskEnd),
}

impl Row {
    fn cells(&self) -> [String; 5] {
        let (status, message) = match &self.state {
            State::Seen(task) => (task.status.as_str(), task.status_message().unwrap_or_default()),
            State::Over(end) => ("gone", end.to_string()),
        };
        let age = clock::span(self.handle.age(SystemTime::now()));
        [self.handle.id.to_string(), status.to_owned(), age, self.tool.clone().unwrap_or_default(), message]
    }

    fn to_json(&self) -> Value {
        let mut json = handle_json(&self.handle);
        json["tool"] = self.tool.clone().into();
        match &self.state {
            State::Seen(task) => {
                json["status"] = task.status.as_str().into();
                json["message"] = task.status_message().into();
            }
            State::Over(end) => {
                json["status"] = "gone".into();
                json["message"] = end.to_string().into();
            }
        }
        json
    }
}

fn handle_json(handle: &TaskHandle) -> Value {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "id": handle.id,
        "created_at": clock::utc(handle.created_at),
        "ttl_ms": handle.ttl.map(millis),
        "poll_interval_ms": handle.poll_interval.map(millis),
    })
}

fn state_json(task: &Task) -> Value {
    json!({ "id": task.id, "status": task.status.as_str(), "message": task.status_message() })
}

/// How it stands, in a line.
fn stands(task: &Task) -> String {
    match task.status_message() {
        Some(message) => format!("{} ({})", task.status, escape::line(&message)),
        None => task.status.to_string(),
    }
}

fn said(task: &Task) -> Progress {
    Progress { token: Id::from(0_u64), progress: 0.0, total: None, message: Some(stands(task).into()) }
}

fn is_started(server: &Server) -> bool {
    matches!(server.transport, Transport::Stdio(_))
}

/// The server as it can be typed again. A URL with more than a path may hold a key, and a command is long.
fn spelled(typed: Option<&str>) -> String {
    typed.filter(|typed| !typed.contains(['?', '@', '#'])).map_or_else(|| "SERVER".to_owned(), word)
}

/// A word for a shell.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", escape::line(text).replace('\'', r"'\''"))
}

/// Each costs a request.
const MOST_LISTED: usize = 100;

const ENDED_WITH_IT: &str = "a server that is started by a command ends with each bowline, and most lose their \
                             tasks then; without --task a call is waited for";
