//! Implements `bowline tasks`.

mod begin;
mod row;
mod spelling;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bowline::config::{Server, Transport};
use bowline::fault::{Cause, Limit};
use bowline::schema::{OutputCheck, check_output};
use bowline::view::{CallToolResult, Task};
use bowline::{CallOptions, Client, ErrorKind, SavedSession, TaskEnd, TaskHandle};
use serde_json::Value;

pub(super) use begin::{Begun, begin};
use row::{Row, State, said, stands, state_json};
use spelling::{flag, spelled};

use crate::args::TasksArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::print::Printer;
use crate::print::content::Viewer;
use crate::print::progress::Bar;
use crate::print::table::Table;
use crate::session::{self, Stay};
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
    for (flag, id) in [("--wait", &what.wait), ("--result", &what.result), ("--cancel", &what.cancel)] {
        if id.as_ref().is_some_and(String::is_empty) {
            return Err(Failure::usage(format!("{flag}: the id is empty")));
        }
    }
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

/// The server of a `bowline tasks` command, with the way it was typed.
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
        let kept = kept.into_iter().take(MOST_LISTED).collect();
        let (mut rows, mut others): (Vec<Row>, Vec<Row>) = Default::default();
        for (session, kept) in by_session(kept) {
            let (mine, listed) = self.rows(session, &kept, store.as_ref()).await?;
            rows.extend(mine);
            others.extend(listed);
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.handle.created_at));
        for row in others {
            if rows.len() < 2 * MOST_LISTED && !rows.iter().any(|other| other.handle.id == row.handle.id) {
                rows.push(row);
            }
        }
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
        let is_over = |end| rows.iter().any(|row| matches!(row.state, State::Over(over) if over == end));
        if is_started(self.server) && is_over(TaskEnd::NotFound) {
            printer.note(ENDED_WITH_IT);
        }
        if is_over(TaskEnd::WrongRevision) {
            printer.note("a task of the other revision can be asked for with --protocol legacy or modern");
        }
        Ok(Exit::Ok)
    }

    /// Fetches the state of recorded tasks in one session, and the tasks that the server lists
    /// there.
    async fn rows(
        &self,
        session: Option<SavedSession>,
        kept: &[Kept],
        store: Option<&Store>,
    ) -> Outcome<(Vec<Row>, Vec<Row>)> {
        session::with_session(self.settings, self.server, session, async |client, stay| {
            keep_open(stay, store, kept);
            let mut rows = Vec::new();
            for kept in kept {
                let state = match client.task(&kept.handle).await {
                    Ok(task) => State::Seen(task),
                    Err(error) => self.unseen(&error)?,
                };
                if let (State::Over(TaskEnd::NotFound), Some(store)) = (&state, store) {
                    store.forget(kept);
                }
                rows.push(Row { handle: kept.handle.clone(), tool: Some(kept.tool.clone()), state });
            }
            if rows.iter().all(|row| matches!(row.state, State::Over(TaskEnd::NotFound))) {
                stay.no_longer();
            }
            let listed = match client.list_tasks().await {
                Ok(listed) => listed.items,
                Err(error) if matches!(error.kind(), ErrorKind::NotOffered(_)) => Vec::new(),
                Err(error) => {
                    // The recorded tasks are worth showing even if the server's own list fails.
                    if rows.is_empty() || is_connection_lost(&error) {
                        return Err(Failure::call(&error, self.server));
                    }
                    self.printer().note(&format!("the server's own list cannot be read: {error}"));
                    Vec::new()
                }
            };
            let listed = listed.into_iter().take(MOST_LISTED).map(|task| Row {
                handle: client.task_handle(&task),
                tool: None,
                state: State::Seen(task),
            });
            Ok((rows, listed.collect()))
        })
        .await
    }

    /// Maps an error to the state of one task. A connection failure is returned, as it affects all
    /// tasks.
    fn unseen(&self, error: &bowline::Error) -> Outcome<State> {
        match error.kind() {
            ErrorKind::Task(end) => Ok(State::Over(*end)),
            _ if is_connection_lost(error) => Err(Failure::call(error, self.server)),
            _ => Ok(State::Unread(error.to_string())),
        }
    }

    /// Runs `work` with one task, in the session that it was started in if that is recorded.
    async fn with_task<T>(
        &self,
        id: &str,
        work: impl AsyncFnOnce(&Client, &TaskHandle, Option<&Kept>) -> Done<T>,
    ) -> Outcome<(T, Option<Kept>)> {
        let (store, kept) = self.kept(id)?;
        let session = kept.as_ref().and_then(Kept::session).cloned();
        let done = session::with_session(self.settings, self.server, session, async |client, stay| {
            keep_open(stay, store.as_ref(), kept.as_slice());
            // The server may know a task that was not recorded.
            let handle = match &kept {
                Some(kept) => kept.handle.clone(),
                None => client.task_by_id(id).await.map_err(|error| Failure::call(&error, self.server))?,
            };
            work(client, &handle, kept.as_ref()).await.map_err(|undone| match undone {
                Undone::Failed(error) => {
                    if matches!(error.kind(), ErrorKind::Task(TaskEnd::NotFound)) {
                        stay.no_longer();
                    }
                    self.failed(&error, store.as_ref(), kept.as_ref())
                }
                Undone::Told(failure) => failure,
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
                let (listener, seen) = (bar.clone(), Arc::new(Mutex::new(None)));
                let last = Arc::clone(&seen);
                let options = limits.clone().on_task(move |task| {
                    listener.update(&said(task));
                    *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.clone());
                });
                let result = client.wait_task(handle, &options).await;
                bar.finish();
                let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
                match (result, seen) {
                    (Err(error), Some(task)) if is_out_of_time(&error) => {
                        let message = format!("the time is over, and the task is still {}", stands(&task));
                        Err(Undone::Told(self.unended(message, id, &task)))
                    }
                    (result, _) => Ok(self.checked(client, kept, result?).await),
                }
            })
            .await;
        match ended {
            Ok((result, kept)) => self.show(kept.as_ref(), viewer, result),
            Err(Failure::Signal(exit)) => {
                printer.note(&format!(
                    "the task goes on; `bowline tasks {} {}` waits for it again",
                    self.spelled,
                    flag("--wait", id)
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
                let message = format!("the task has not ended: {}", stands(&task));
                return Err(Undone::Told(self.unended(message, id, &task)));
            }
            let result = client.wait_task(handle, &CallOptions::new()).await?;
            Ok(self.checked(client, kept, result).await)
        });
        let (result, kept) = ended.await?;
        self.show(kept.as_ref(), viewer, result)
    }

    async fn cancel(&self, id: &str) -> Outcome {
        let printer = self.printer();
        let cancelled = self.with_task(id, async |client, handle, _| Ok(client.cancel_task(handle).await?));
        let (task, _) = cancelled.await?;
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

    fn unended(&self, message: String, id: &str, task: &Task) -> Failure {
        let mut report = Report::new(Exit::Timeout, message);
        report.hint = Some(format!("`bowline tasks {} {}` waits", self.spelled, flag("--wait", id)));
        report.members.insert("task".into(), state_json(task));
        report.into()
    }

    /// Checks the result against the tool's output schema.
    // TL-06: also for a result that comes late.
    async fn checked(&self, client: &Client, kept: Option<&Kept>, result: CallToolResult) -> Checked {
        let (Some(kept), false) = (kept, result.is_error) else {
            return Checked { result, check: OutputCheck::NoSchema };
        };
        let check = match (client.list_tools().await, client.server().await) {
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
        Checked { result, check }
    }

    fn show(&self, kept: Option<&Kept>, viewer: &Viewer<'_>, ended: Checked) -> Outcome {
        let Checked { result, check } = ended;
        let printer = self.printer();
        super::call::show(printer, viewer, &result)?;
        let tool = kept.map_or("", |kept| &*kept.tool);
        if !result.is_error {
            return Ok(super::call::judge(printer, tool, check));
        }
        if !printer.is_json() {
            let tool = if tool.is_empty() { String::new() } else { format!(" `{tool}`") };
            printer.failure(&Report::new(Exit::Tool, format!("the tool{tool} reported an error")));
        }
        Ok(Exit::Tool)
    }

    /// Finds the recorded task by its id or a unique prefix of it.
    fn kept(&self, id: &str) -> Outcome<(Option<Store>, Option<Kept>)> {
        let Some(store) = Store::of(self.settings) else { return Ok((None, None)) };
        let mut tasks = store.tasks(self.server);
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
    fn failed(&self, error: &bowline::Error, store: Option<&Store>, kept: Option<&Kept>) -> Failure {
        let mut failure = Failure::call(error, self.server);
        if let (ErrorKind::Task(TaskEnd::NotFound), Some(kept)) = (error.kind(), kept) {
            if let Some(store) = store {
                store.forget(kept);
            }
            if let (Failure::Told(report), true) = (&mut failure, is_bound_to_session(kept)) {
                report.hint = Some(SESSION_OVER.to_owned());
            }
        }
        failure
    }
}

/// A result with the outcome of its schema check.
struct Checked {
    result: CallToolResult,
    check: OutputCheck,
}

/// Result of work with one task.
type Done<T> = Result<T, Undone>;

enum Undone {
    Failed(bowline::Error),
    /// A failure that is ready to be reported.
    Told(Failure),
}

impl From<bowline::Error> for Undone {
    fn from(error: bowline::Error) -> Self {
        Self::Failed(error)
    }
}

/// Keeps the session of these tasks open, since some servers know a task only in its session. If a
/// new session had to be opened, it is recorded for the next command.
fn keep_open(stay: &Stay, store: Option<&Store>, kept: &[Kept]) {
    let Some(store) = store.cloned().filter(|_| kept.iter().any(|kept| kept.session().is_some())) else {
        return;
    };
    let kept = kept.to_vec();
    stay.then(move |session| {
        for kept in kept.into_iter().filter(|kept| kept.session() != Some(&session)) {
            store.renew(&kept.in_session(session.clone()));
        }
    });
}

/// Groups tasks by the session they were started in. There is always at least one group, since the
/// server may list tasks itself.
fn by_session(kept: Vec<Kept>) -> Vec<(Option<SavedSession>, Vec<Kept>)> {
    let mut groups: Vec<(Option<SavedSession>, Vec<Kept>)> = Vec::new();
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
fn is_bound_to_session(kept: &Kept) -> bool {
    kept.session().is_some() && kept.handle.expires_at().is_none_or(|end| end > SystemTime::now())
}

fn is_started(server: &Server) -> bool {
    matches!(server.transport, Transport::Stdio(_))
}

/// How many recorded tasks are listed; each costs a request.
const MOST_LISTED: usize = 100;

const SESSION_OVER: &str = "the session that it was begun in is over, and this server keeps tasks per session \
                            only, or was restarted; without --task a call is waited for";

const ENDED_WITH_IT: &str = "a server that is started by a command ends with each bowline, and most lose their \
                             tasks then; without --task a call is waited for";
