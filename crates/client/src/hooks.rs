//! Hooks: commands that are run and URLs that are called when something happens to a server.
//!
//! - A hook is told one event after the other, in the order they happened. Two hooks do not wait for each
//!   other.
//! - Nothing waits for a hook: not the connection, not a call. A hook that cannot keep up is told how many
//!   events it missed.
//! - A command is killed with its process group at its time limit, and is not run again if it fails. A
//!   webhook is called a second time if it is certain that it got nothing the first time.
//! - What is told is in [`Notice`]. A server's words in it are data: bounded, on one line.

mod command;
mod notice;
mod queue;
mod webhook;

use std::sync::Arc;

use bowline_config::{Hook, HookAction, HookEvent};
use tokio::task::JoinHandle;

use bowline_transport::process::{self, OneShotOutput};

use self::command::Run;
use self::queue::Queue;
use self::webhook::{Posted, Webhook};
use crate::client::Client;
use crate::registry::{Fed, Feed};

pub use notice::Notice;

/// Hooks at work. They end when their client is closed and they were told everything.
///
/// Dropping this leaves them to it; [`Hooks::finished`] waits for their end.
#[derive(Debug)]
pub struct Hooks {
    tasks: Vec<JoinHandle<()>>,
}

/// Runs `hooks` on what happens to `client`, from now on. If it is connected already, or failed, they are
/// told so first.
///
/// Does not keep the client alive. Must be called within a tokio runtime.
pub fn spawn(client: &Client, hooks: impl IntoIterator<Item = Hook>) -> Hooks {
    let hooks: Vec<Hook> = hooks.into_iter().collect();
    if Hooks::want_tools(&hooks) {
        client.track_tools();
    }
    Hooks::start(client.name(), Feed::with_present(client), hooks)
}

impl Hooks {
    /// Whether one of them is to be told when the tools change: then somebody has to look.
    pub(crate) fn want_tools(hooks: &[Hook]) -> bool {
        hooks.iter().any(|hook| hook.waits_for(HookEvent::ToolsChanged))
    }

    pub(crate) fn start(server: &str, feed: Feed, hooks: impl IntoIterator<Item = Hook>) -> Self {
        let server: Arc<str> = Arc::from(server);
        let hooks: Vec<(Hook, Arc<Queue>)> = hooks.into_iter().map(|hook| (hook, Arc::default())).collect();
        if hooks.is_empty() {
            return Self { tasks: Vec::new() };
        }
        let workers = hooks
            .iter()
            .map(|(hook, queue)| tokio::spawn(work(Arc::clone(&server), hook.clone(), Arc::clone(queue))));
        let mut tasks: Vec<_> = workers.collect();
        tasks.push(tokio::spawn(distribute(server, feed, hooks)));
        Self { tasks }
    }

    /// Ends them at once; a running command is killed.
    pub fn stop(self) {
        drop(AbortOnDrop(self.tasks));
    }

    /// Waits until the client is closed and all hooks have been told everything, which each does within the
    /// time that it is given for one event, times the events that wait.
    ///
    /// Dropping the future ends them at once; a running command is killed.
    pub async fn finished(self) {
        let mut guard = AbortOnDrop(self.tasks);
        for task in &mut guard.0 {
            let _ = task.await;
        }
    }
}

struct AbortOnDrop(Vec<JoinHandle<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Puts each event into the queues of those who wait for it. Never waits for them.
async fn distribute(server: Arc<str>, mut feed: Feed, hooks: Vec<(Hook, Arc<Queue>)>) {
    while let Some(fed) = feed.next().await {
        let event = match fed {
            Fed::Event(event) => event,
            Fed::Missed(count) => {
                for (_, queue) in &hooks {
                    queue.miss(count);
                }
                continue;
            }
        };
        let Some(notice) = Notice::of(&server, &event) else { continue };
        for (hook, queue) in &hooks {
            if hook.waits_for(notice.event) {
                queue.push(notice.clone());
            }
        }
    }
    for (_, queue) in &hooks {
        queue.close();
    }
}

/// Tells one hook everything, one after the other.
async fn work(server: Arc<str>, hook: Hook, queue: Arc<Queue>) {
    match &hook.run {
        HookAction::Command { command, args, env, cwd } => {
            let run = Run { program: command, args, env, cwd: cwd.as_deref(), limit: hook.timeout };
            let shown = process::program_name(command);
            while let Some(notice) = queue.next().await {
                log_run(&server, &notice, &shown.to_string_lossy(), run.run(&notice).await);
            }
        }
        HookAction::Webhook { url, headers } => {
            // Paths and queries of webhooks are their keys.
            let shown = url.origin().ascii_serialization();
            let webhook = match Webhook::new(url, headers, hook.timeout) {
                Ok(webhook) => webhook,
                Err(fault) => {
                    tracing::warn!(%server, hook = shown, %fault, "the webhook cannot be called");
                    return;
                }
            };
            while let Some(notice) = queue.next().await {
                log_post(&server, &notice, &shown, &webhook.post(notice.to_json()).await);
            }
        }
    }
}

fn log_run(server: &str, notice: &Notice, hook: &str, outcome: std::io::Result<OneShotOutput>) {
    let event = notice.event.as_str();
    let ran = match outcome {
        Ok(ran) => ran,
        Err(error) => {
            tracing::warn!(server, event, hook, %error, "the hook could not be run");
            return;
        }
    };
    for (stream, bytes) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        for line in String::from_utf8_lossy(bytes).trim_end().lines() {
            tracing::info!(target: "bowline::hook", server, event, hook, stream, "{}", line.escape_debug());
        }
    }
    match ran.exit {
        Some(exit) if exit.success() => tracing::debug!(server, event, hook, "the hook ran"),
        Some(exit) => tracing::warn!(server, event, hook, %exit, "the hook failed"),
        None => tracing::warn!(server, event, hook, "the hook took too long and was ended"),
    }
}

fn log_post(server: &str, notice: &Notice, hook: &str, outcome: &Posted) {
    let event = notice.event.as_str();
    match outcome {
        Posted::Status(status @ 200..300) => tracing::debug!(server, event, hook, status, "webhook called"),
        Posted::Status(status) => tracing::warn!(server, event, hook, status, "the webhook refused"),
        Posted::Fault(fault) => tracing::warn!(server, event, hook, %fault, "no webhook was reached"),
        Posted::TooLong => tracing::warn!(server, event, hook, "the webhook took too long"),
    }
}
