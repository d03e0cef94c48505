//! Hooks: commands and webhooks that run when the state of a server changes.
//!
//! - A hook receives one event after the other, in order. Hooks do not wait for each other.
//! - Nothing waits for a hook: no connection and no call. A slow hook is told how many events it
//!   missed.
//! - A command is killed with its process group at its timeout, and is not run again if it fails. A
//!   webhook is called a second time only if it certainly received nothing the first time.
//! - [`Notice`] holds what a hook receives. Text of the server in it is bounded and on one line.

mod notice;
mod queue;
mod webhook;

use std::sync::Arc;

use bowline_config::{Hook, HookAction, HookEvent, Program};
use tokio::task::JoinHandle;

use bowline_transport::process::{self, OneShot, OneShotOutput};

use self::queue::NoticeQueue;
use self::webhook::{Webhook, WebhookOutcome};
use crate::client::Client;
use crate::events::Event;
use crate::registry::Feed;

pub use notice::Notice;

/// Running hooks. They end when their client is closed and they have received everything.
///
/// Dropping this leaves them running; [`Hooks::finished`] waits for their end.
#[derive(Debug)]
pub struct Hooks {
    tasks: Vec<JoinHandle<()>>,
}

/// Maximum size of a command's output that is logged, in bytes.
const MAX_OUTPUT_BYTES: usize = 4096;

/// Runs `hooks` for the events of `client`, from now on. If it is already connected or has failed,
/// they receive that first.
///
/// Does not keep the client alive. Must be called within a tokio runtime.
pub fn spawn(client: &Client, hooks: impl IntoIterator<Item = Hook>) -> Hooks {
    let hooks: Vec<Hook> = hooks.into_iter().collect();
    if Hooks::need_tool_tracking(&hooks) {
        client.track_tools();
    }
    Hooks::start(client.name(), Feed::with_initial_event(client), hooks)
}

impl Hooks {
    /// Whether a hook waits for tool changes, so that the tools must be tracked.
    pub(crate) fn need_tool_tracking(hooks: &[Hook]) -> bool {
        hooks.iter().any(|hook| hook.waits_for(HookEvent::ToolsChanged))
    }

    pub(crate) fn start(server: &str, feed: Feed, hooks: impl IntoIterator<Item = Hook>) -> Self {
        let server: Arc<str> = Arc::from(server);
        let hooks: Vec<(Hook, Arc<NoticeQueue>)> =
            hooks.into_iter().map(|hook| (hook, Arc::default())).collect();
        if hooks.is_empty() {
            return Self { tasks: Vec::new() };
        }
        let workers = hooks.iter().map(|(hook, queue)| {
            tokio::spawn(run_hook(Arc::clone(&server), hook.clone(), Arc::clone(queue)))
        });
        let mut tasks: Vec<_> = workers.collect();
        tasks.push(tokio::spawn(distribute(server, feed, hooks)));
        Self { tasks }
    }

    /// Stops them at once; a running command is killed.
    pub fn stop(self) {
        drop(AbortOnDrop(self.tasks));
    }

    /// Waits until the client is closed and all hooks have received everything. Each takes at most
    /// its timeout per pending event.
    ///
    /// Dropping the future stops them at once; a running command is killed.
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

/// Puts each event into the queues of the hooks that want it. Never waits for them.
async fn distribute(server: Arc<str>, mut feed: Feed, hooks: Vec<(Hook, Arc<NoticeQueue>)>) {
    while let Some(event) = feed.next().await {
        if let Event::Missed(count) = event {
            for (_, queue) in &hooks {
                queue.add_missed(count);
            }
            continue;
        }
        let Some(notice) = Notice::from_event(&server, &event) else { continue };
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

/// Runs one hook for its events, one after the other.
async fn run_hook(server: Arc<str>, hook: Hook, queue: Arc<NoticeQueue>) {
    match &hook.action {
        HookAction::Command(Program { command, args, env, cwd, .. }) => {
            let shown = process::program_name(command);
            while let Some(notice) = queue.next().await {
                let json = format!("{}\n", notice.to_json());
                let variables: Vec<_> = notice.variables().collect();
                let run = OneShot {
                    program: command,
                    args,
                    env,
                    extra_env: &variables,
                    cwd: cwd.as_deref(),
                    stdin_text: Some(json.as_bytes()),
                    timeout: hook.timeout,
                    max_stdout: MAX_OUTPUT_BYTES,
                };
                log_run(&server, &notice, &shown.to_string_lossy(), run.run().await);
            }
        }
        HookAction::Webhook { url, headers, .. } => {
            // The path and query of a webhook URL are often secret.
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
        other => tracing::warn!(%server, hook = ?other, "this kind of hook cannot be run"),
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

fn log_post(server: &str, notice: &Notice, hook: &str, outcome: &WebhookOutcome) {
    let event = notice.event.as_str();
    match outcome {
        WebhookOutcome::Status(status @ 200..300) => {
            tracing::debug!(server, event, hook, status, "webhook called");
        }
        WebhookOutcome::Status(status) => tracing::warn!(server, event, hook, status, "the webhook refused"),
        WebhookOutcome::Fault(fault) => tracing::warn!(server, event, hook, %fault, "no webhook was reached"),
        WebhookOutcome::TimedOut => tracing::warn!(server, event, hook, "the webhook took too long"),
    }
}
