//! Implements `bowline tasks`.

mod quoting;
mod row;
mod start;

use std::sync::Arc;
use std::time::SystemTime;

use bowline::config::Transport;
use bowline::schema::{OutputCheck, check_output};
use bowline::types::{CallToolResult, Task};
use bowline::{CallOptions, Cause, Client, ErrorKind, Limit, SavedSession, Server, TaskEnd, TaskHandle};
use parking_lot::Mutex;
use serde_json::Value;

use quoting::{format_flag, server_argument};
pub(super) use row::status_progress;
use row::{TaskRow, TaskRowState, describe_status, state_json};
pub(super) use start::{TaskStart, start_task};

use crate::args::TasksArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::print::Printer;
use crate::print::content::Viewer;
use crate::print::progress::Bar;
use crate::print::table::Table;
use crate::session::{self, SessionRetention};
use crate::settings::Settings;
use crate::tasks::{TaskRecord, TaskStore};

pub(super) async fn run(args: TasksArgs, settings: &Settings) -> Outcome {
    let TasksArgs { what, content, host: _, server } = args;
    let limits = CallOptions::new();
    let limits = server.target.timeout.map_or(limits.clone(), |idle| limits.idle_timeout(idle));
    let limits = server.target.max_timeout.map_or(limits.clone(), |total| limits.timeout(total));
    let (name, server) = settings.resolve_server_args("tasks", server)?;
    let server = TaskCommand { settings, server: &server, server_arg: server_argument(name.as_deref()) };
    for (flag, id) in [("--wait", &what.wait), ("--result", &what.result), ("--cancel", &what.cancel)] {
        if id.as_ref().is_some_and(String::is_empty) {
            return Err(Failure::usage(format!("{flag}: the id is empty")));
        }
    }
    match (what.wait, what.result, what.cancel) {
        (Some(id), ..) => {
            let viewer = settings.viewer(content, "task")?.for_server(name.as_deref());
            server.wait(&id, &limits, &viewer).await
        }
        (_, Some(id), _) => {
            let viewer = settings.viewer(content, "task")?.for_server(name.as_deref());
            server.result(&id, &viewer).await
        }
        (.., Some(id)) => server.cancel(&id).await,
        _ => server.list().await,
    }
}

/// The server of a `bowline tasks` command, with the way it was typed.
struct TaskCommand<'a> {
    settings: &'a Settings,
    server: &'a Server,
    server_arg: String,
}

impl TaskCommand<'_> {
    fn printer(&self) -> &Printer {
        &self.settings.printer
    }

    async fn list(&self) -> Outcome {
        let store = TaskStore::open(self.settings);
        let kept = store.as_ref().map(|store| store.list(self.server)).unwrap_or_default();
        let kept = kept.into_iter().take(MAX_LISTED).collect();
        let (mut rows, mut others): (Vec<TaskRow>, Vec<TaskRow>) = Default::default();
        for (session, kept) in group_by_session(kept) {
            let (mine, listed) = self.fetch_rows(session, &kept, store.as_ref()).await?;
            rows.extend(mine);
            others.extend(listed);
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.handle.created_at));
        for row in others {
            if rows.len() < 2 * MAX_LISTED && !rows.iter().any(|other| other.handle.id == row.handle.id) {
                rows.push(row);
            }
        }
        let printer = self.printer();
        if printer.is_json() {
            let rows: Vec<Value> = rows.iter().map(TaskRow::to_json).collect();
            printer.write_json(&Value::from(rows).to_string())?;
            return Ok(Exit::Ok);
        }
        if rows.is_empty() {
            printer.note(&format!("no task of `{}` is known", self.server.name));
            return Ok(Exit::Ok);
        }
        let mut table = Table::new(["ID", "STATUS", "AGE", "TOOL", "MESSAGE"]);
        for row in &rows {
            table.push_row(row.cells());
        }
        printer.write_layout(&table.render(printer))?;
        let is_over =
            |end| rows.iter().any(|row| matches!(row.state, TaskRowState::Ended(over) if over == end));
        if is_stdio(self.server) && is_over(TaskEnd::NotFound) {
            printer.note(SERVER_ENDED_HINT);
        }
        if is_over(TaskEnd::WrongRevision) {
            printer.note("a task of the other revision can be asked for with --protocol legacy or modern");
        }
        Ok(Exit::Ok)
    }

    /// Fetches the state of recorded tasks in one session, and the tasks that the server lists
    /// there.
    async fn fetch_rows(
        &self,
        session: Option<SavedSession>,
        kept: &[TaskRecord],
        store: Option<&TaskStore>,
    ) -> Outcome<(Vec<TaskRow>, Vec<TaskRow>)> {
        session::with_session(self.settings, self.server, session, async |client, open| {
            let stay = &open.retention;
            keep_session(stay, store, kept);
            let mut rows = Vec::new();
            for kept in kept {
                let state = match client.task(&kept.handle).await {
                    Ok(task) => TaskRowState::Known(task),
                    Err(error) => self.state_for_error(&error)?,
                };
                if let (TaskRowState::Ended(TaskEnd::NotFound), Some(store)) = (&state, store) {
                    store.remove(kept);
                }
                rows.push(TaskRow { handle: kept.handle.clone(), tool: Some(kept.tool.clone()), state });
            }
            if rows.iter().all(|row| matches!(row.state, TaskRowState::Ended(TaskEnd::NotFound))) {
                stay.release();
            }
            let listed = match client.list_tasks().await {
                Ok(listed) => listed.items,
                Err(error) if matches!(error.kind(), ErrorKind::NotOffered(_)) => Vec::new(),
                Err(error) => {
                    // The recorded tasks are worth showing even if the server's own list fails.
                    if rows.is_empty() || is_connection_lost(&error) {
                        return Err(Failure::call(&error, self.server, &self.settings.command_line));
                    }
                    self.printer().note(&format!("the server's list of tasks cannot be read: {error}"));
                    Vec::new()
                }
            };
            let listed = listed.into_iter().take(MAX_LISTED).map(|task| TaskRow {
                handle: client.task_handle(&task),
                tool: None,
                state: TaskRowState::Known(task),
            });
            Ok((rows, listed.collect()))
        })
        .await
    }

    /// Maps an error to the state of one task. A connection failure is returned, as it affects all
    /// tasks.
    fn state_for_error(&self, error: &bowline::Error) -> Outcome<TaskRowState> {
        match error.kind() {
            ErrorKind::Task(end) => Ok(TaskRowState::Ended(*end)),
            _ if is_connection_lost(error) => {
                Err(Failure::call(error, self.server, &self.settings.command_line))
            }
            _ => Ok(TaskRowState::Unreadable(error.to_string())),
        }
    }

    /// Runs `work` with one task, in the session that it was started in if that is recorded.
    async fn with_task<T>(
        &self,
        id: &str,
        work: impl AsyncFnOnce(&Client, &TaskHandle, Option<&TaskRecord>) -> TaskResult<T>,
    ) -> Outcome<(T, Option<TaskRecord>)> {
        let (store, kept) = self.find_task(id)?;
        let session = kept.as_ref().and_then(TaskRecord::session).cloned();
        let done = session::with_session(self.settings, self.server, session, async |client, open| {
            let stay = &open.retention;
            keep_session(stay, store.as_ref(), kept.as_slice());
            // The server may know a task that was not recorded.
            let handle = match &kept {
                Some(kept) => kept.handle.clone(),
                None => client
                    .task_by_id(id)
                    .await
                    .map_err(|error| Failure::call(&error, self.server, &self.settings.command_line))?,
            };
            work(client, &handle, kept.as_ref()).await.map_err(|undone| match undone {
                TaskError::Call(error) => {
                    if matches!(error.kind(), ErrorKind::Task(TaskEnd::NotFound)) {
                        stay.release();
                    }
                    self.task_failure(&error, store.as_ref(), kept.as_ref())
                }
                TaskError::Reported(failure) => failure,
            })
        })
        .await?;
        Ok((done, kept))
    }

    async fn wait(&self, id: &str, limits: &CallOptions, viewer: &Viewer<'_>) -> Outcome {
        let printer = self.printer();
        let ended = self
            .with_task(id, async |client, handle, kept| {
                let bar = Bar::start(printer, &format!("task {}", handle.id));
                let (listener, seen) = (bar.updater(), Arc::new(Mutex::new(None)));
                let last = Arc::clone(&seen);
                let options = limits.clone().on_task(move |task| {
                    listener.update(&status_progress(task));
                    *last.lock() = Some(task.clone());
                });
                let result = client.wait_task(handle, &options).await;
                bar.finish();
                let seen = seen.lock().take();
                match (result, seen) {
                    (Err(error), Some(task)) if is_out_of_time(&error) => {
                        let message = format!("timed out; the task is still {}", describe_status(&task));
                        Err(TaskError::Reported(self.unfinished_failure(message, id, &task)))
                    }
                    (result, _) => Ok(self.check_result(client, kept, result?.into_result()).await),
                }
            })
            .await;
        match ended {
            Ok((result, kept)) => self.show_result(kept.as_ref(), viewer, result),
            Err(Failure::Signal(exit)) => {
                printer.note(&format!(
                    "the task goes on; `bowline tasks {} {}` waits for it again",
                    self.server_arg,
                    format_flag("--wait", id)
                ));
                Err(Failure::Signal(exit))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn result(&self, id: &str, viewer: &Viewer<'_>) -> Outcome {
        let ended = self.with_task(id, async |client, handle, kept| {
            let task = client.task(handle).await?;
            if !task.status.is_terminal() {
                let message = format!("the task has not ended: {}", describe_status(&task));
                return Err(TaskError::Reported(self.unfinished_failure(message, id, &task)));
            }
            let result = client.wait_task(handle, &CallOptions::new()).await?;
            Ok(self.check_result(client, kept, result.into_result()).await)
        });
        let (result, kept) = ended.await?;
        self.show_result(kept.as_ref(), viewer, result)
    }

    async fn cancel(&self, id: &str) -> Outcome {
        let printer = self.printer();
        let cancelled = self.with_task(id, async |client, handle, _| Ok(client.cancel_task(handle).await?));
        let (task, _) = cancelled.await?;
        if printer.is_json() {
            printer.write_json(&state_json(&task).to_string())?;
        } else {
            printer.write_text(task.status.as_str())?;
            if !task.status.is_terminal() {
                printer.note("cancellation was requested; the server ends the task when it can");
            }
        }
        Ok(Exit::Ok)
    }

    fn unfinished_failure(&self, message: String, id: &str, task: &Task) -> Failure {
        let mut report = Report::new(Exit::Timeout, message);
        report.hint =
            Some(format!("`bowline tasks {} {}` waits", self.server_arg, format_flag("--wait", id)));
        report.members.insert("task".into(), state_json(task));
        report.into()
    }

    /// Checks the result against the tool's output schema.
    // TL-06: also for a result that comes late.
    async fn check_result(
        &self,
        client: &Client,
        kept: Option<&TaskRecord>,
        result: CallToolResult,
    ) -> CheckedResult {
        let (Some(kept), false) = (kept, result.is_error) else {
            return CheckedResult { result, check: OutputCheck::NoSchema };
        };
        let check = match (client.list_tools().await, client.peer().await) {
            (Ok(tools), Ok(server)) => tools
                .iter()
                .find(|known| *known.name == *kept.tool)
                .map_or(OutputCheck::NoSchema, |known| check_output(known, &result, server.revision)),
            // The result is there; only the check is not possible.
            (Err(error), _) | (_, Err(error)) => {
                self.printer().note(&format!("the result was not checked: {error}"));
                OutputCheck::NoSchema
            }
        };
        CheckedResult { result, check }
    }

    fn show_result(&self, kept: Option<&TaskRecord>, viewer: &Viewer<'_>, ended: CheckedResult) -> Outcome {
        let CheckedResult { result, check } = ended;
        let printer = self.printer();
        super::tool_result::show_result(printer, viewer, &result)?;
        let tool = kept.map_or("", |kept| &*kept.tool);
        if !result.is_error {
            return Ok(super::tool_result::report_output_check(printer, tool, check));
        }
        if !printer.is_json() {
            printer.write_failure(&super::tool_result::tool_failure(tool, &result));
        }
        Ok(Exit::Tool)
    }

    /// Finds the recorded task by its id or a unique prefix of it.
    fn find_task(&self, id: &str) -> Outcome<(Option<TaskStore>, Option<TaskRecord>)> {
        let Some(store) = TaskStore::open(self.settings) else { return Ok((None, None)) };
        let mut tasks = store.list(self.server);
        if let Some(at) = tasks.iter().position(|kept| *kept.handle.id == *id) {
            return Ok((Some(store), Some(tasks.swap_remove(at))));
        }
        tasks.retain(|kept| kept.handle.id.starts_with(id));
        if tasks.len() > 1 {
            let ids: Vec<_> = tasks.iter().take(10).map(|kept| kept.handle.id.to_string()).collect();
            let message = format!("several tasks begin with `{id}`");
            return Err(Failure::usage_hint(message, format!("there are: {}", ids.join(", "))));
        }
        Ok((Some(store), tasks.pop()))
    }

    /// Converts an error to a failure, and removes the record of a task that is gone.
    fn task_failure(
        &self,
        error: &bowline::Error,
        store: Option<&TaskStore>,
        kept: Option<&TaskRecord>,
    ) -> Failure {
        let mut failure = Failure::call(error, self.server, &self.settings.command_line);
        if let (ErrorKind::Task(TaskEnd::NotFound), Some(kept)) = (error.kind(), kept) {
            if let Some(store) = store {
                store.remove(kept);
            }
            if let (Failure::Report(report), true) = (&mut failure, is_bound_to_session(kept)) {
                report.hint = Some(SESSION_OVER_HINT.to_owned());
            }
        }
        failure
    }
}

/// A result with the outcome of its schema check.
struct CheckedResult {
    result: CallToolResult,
    check: OutputCheck,
}

type TaskResult<T> = Result<T, TaskError>;

enum TaskError {
    Call(bowline::Error),
    /// A failure that is ready to be reported.
    Reported(Failure),
}

impl From<bowline::Error> for TaskError {
    fn from(error: bowline::Error) -> Self {
        Self::Call(error)
    }
}

/// Keeps the session of these tasks open, since some servers know a task only in its session. If a
/// new session had to be opened, it is recorded for the next command.
fn keep_session(stay: &SessionRetention, store: Option<&TaskStore>, kept: &[TaskRecord]) {
    let Some(store) = store.cloned().filter(|_| kept.iter().any(|kept| kept.session().is_some())) else {
        return;
    };
    let kept = kept.to_vec();
    stay.keep(move |session| {
        for kept in kept.into_iter().filter(|kept| kept.session() != Some(&session)) {
            store.update(&kept.with_session(session.clone()));
        }
    });
}

/// Groups tasks by the session they were started in. There is always at least one group, since the
/// server may list tasks itself.
fn group_by_session(kept: Vec<TaskRecord>) -> Vec<(Option<SavedSession>, Vec<TaskRecord>)> {
    let mut groups: Vec<(Option<SavedSession>, Vec<TaskRecord>)> = Vec::new();
    for kept in kept {
        match groups.iter_mut().find(|(session, _)| session.as_ref() == kept.session()) {
            Some((_, group)) => group.push(kept),
            None => groups.push((kept.session().cloned(), vec![kept])),
        }
    }
    if groups.is_empty() {
        groups.push((None, Vec::new()));
    }
    groups
}

/// Returns whether further requests would fail too. A protocol error still means that the server
/// responds.
fn is_connection_lost(error: &bowline::Error) -> bool {
    error.fault().is_some_and(|fault| !matches!(fault.cause, Cause::Protocol(_)))
}

fn is_out_of_time(error: &bowline::Error) -> bool {
    error.fault().is_some_and(|fault| matches!(fault.cause, Cause::Timeout(Limit::Total)))
}

/// Returns whether the task was lost early, together with its session.
fn is_bound_to_session(kept: &TaskRecord) -> bool {
    kept.session().is_some() && kept.handle.expires_at().is_none_or(|end| end > SystemTime::now())
}

fn is_stdio(server: &Server) -> bool {
    matches!(server.transport, Transport::Stdio(_))
}

/// How many recorded tasks are listed; each costs a request.
const MAX_LISTED: usize = 100;

const SESSION_OVER_HINT: &str = "the session that it was begun in is over, and this server keeps tasks per session \
                            only, or was restarted; without --task a call is waited for";

const SERVER_ENDED_HINT: &str = "a server that is started by a command ends with each bowline, and most lose their \
                             tasks then; without --task a call is waited for";
