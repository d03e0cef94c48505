//! Reads the configuration again while `bowline serve` runs: on SIGHUP, and when a file has changed.
//! What is not valid changes nothing.

mod changed_files;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline::Server;
use bowline::config::ServeSettings;
use bowline_gateway::{Gateway, HttpControl, LimitsControl, Reload};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::limits;
use super::listen::{self, SocketKind};
use super::views::{self, ViewChanges, ViewMap};
use crate::args::ServeArgs;
use crate::commands::serving::LoginCommands;
use crate::failure::{Failure, Outcome};
use crate::process_pool::ProcessPool;
use crate::settings::Settings;
use crate::settings::server_selection::{ServerSelection, SkippedServer};
use changed_files::ChangeDetector;
pub(super) use changed_files::ConfigWatch;

/// What the configuration says about servers.
pub(super) struct ReadConfig {
    /// The servers that can be served.
    pub(super) servers: Vec<Server>,
    /// The views of them.
    pub(super) views: ViewMap,
    /// Who is served.
    serve: ServeSettings,
    /// The servers whose entries cannot be used.
    left_out: Vec<SkippedServer>,
    /// The project's files that are used.
    projects: Vec<PathBuf>,
    /// The project's files that are not used, each with a note that says why.
    untrusted: Vec<(PathBuf, String)>,
}

impl ReadConfig {
    /// Reads the configuration, unless these settings have read it already.
    pub(super) fn read(args: &ServeArgs, settings: &Settings) -> Outcome<Self> {
        let ServerSelection { servers, skipped } = settings.select_servers(&args.servers)?;
        let layers = settings.layers()?;
        let servers: Vec<_> = servers.into_iter().filter(|server| server.enabled).collect();
        if servers.is_empty() {
            return Err(Failure::usage_hint(
                "no server can be served",
                "see `bowline status` for what is configured, and why it is left out",
            ));
        }
        Ok(Self {
            servers,
            views: views::configured(settings)?,
            serve: layers.serve(),
            left_out: skipped.into_iter().filter(|skipped| skipped.detail.is_some()).collect(),
            projects: layers.projects().map(|layer| layer.path.clone()).collect(),
            untrusted: layers.untrusted().iter().map(|file| (file.path.clone(), file.note())).collect(),
        })
    }

    /// The notes about servers that are left out, apart from those that were `before`.
    pub(super) fn left_out_notes(&self, before: Option<&Self>) -> Vec<String> {
        let was_left_out = |skipped: &&SkippedServer| {
            before.is_some_and(|before| before.left_out.iter().any(|other| other.name == skipped.name))
        };
        let left_out = self.left_out.iter().filter(|skipped| !was_left_out(skipped));
        left_out
            .map(|skipped| format!("`{}` is left out; see `bowline config check`", skipped.name))
            .collect()
    }

    /// Why it cannot take the place of `before`, although a start would use it.
    fn refuse_after(&self, before: &Self) -> Result<(), String> {
        if let Some((_, note)) = self.untrusted.iter().find(|(path, _)| before.projects.contains(path)) {
            return Err(note.clone());
        }
        let is_served =
            |skipped: &&SkippedServer| before.servers.iter().any(|server| server.name == skipped.name);
        match self.left_out.iter().find(is_served) {
            Some(SkippedServer { name, detail, .. }) => {
                Err(format!("the entry `{name}` cannot be used: {}", detail.as_deref().unwrap_or_default()))
            }
            None => Ok(()),
        }
    }
}

/// Reads the configuration again, and has a gateway take it over.
pub(super) struct Reloader<'a> {
    pub(super) args: &'a ServeArgs,
    pub(super) settings: &'a Settings,
    pub(super) gateway: Gateway,
    pub(super) logins: LoginCommands,
    /// Notified by SIGHUP.
    pub(super) hangups: Arc<Notify>,
    /// The files that are polled, as they were before they were read.
    pub(super) watch: ConfigWatch,
    /// What is served.
    pub(super) current: ReadConfig,
    /// What else a reload changes.
    pub(super) targets: ReloadTargets,
    #[cfg(unix)]
    pub(super) pid_file: Option<super::detached::PidFile>,
    /// The processes that are kept for commands.
    pub(super) pool: Option<Arc<ProcessPool>>,
}

/// What a reload changes beside the gateway.
#[derive(Default)]
pub(super) struct ReloadTargets {
    /// The listener for hosts.
    pub(super) listener: Option<(HttpControl, SocketKind)>,
    /// The limits of the only host.
    pub(super) host_limits: Option<LimitsControl>,
}

/// Why the configuration is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// Somebody wants it, and is told of the result in any case.
    Signal,
    /// A file is another one.
    ChangedFile,
}

impl Reloader<'_> {
    /// Reads the configuration again when that is wanted, until `serve` has ended.
    pub(super) async fn run_while(self, serve: impl Future<Output = ()>) {
        tokio::select! {
            () = serve => {}
            () = self.run() => {}
        }
    }

    /// Never returns.
    async fn run(mut self) {
        let mut detector = ChangeDetector::new(self.watch.first_look());
        let mut polls = interval(POLL_INTERVAL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_refusal = None;
        loop {
            let trigger = tokio::select! {
                () = self.hangups.notified() => Trigger::Signal,
                _ = polls.tick() => Trigger::ChangedFile,
            };
            let now = self.watch.look().await;
            match trigger {
                Trigger::Signal => detector.take(now),
                Trigger::ChangedFile if detector.observe(now) => {}
                Trigger::ChangedFile => continue,
            }
            match self.reload(trigger) {
                Ok(()) => last_refusal = None,
                Err(reason) => {
                    if trigger == Trigger::Signal || last_refusal.as_ref() != Some(&reason) {
                        self.settings.printer.note(&format!(
                            "the configuration was not reloaded, and nothing has changed: {reason}"
                        ));
                    }
                    tracing::debug!("the configuration was not reloaded");
                    last_refusal = Some(reason);
                }
            }
        }
    }

    /// Reads the configuration again. Fails with the reason if it cannot be used.
    fn reload(&mut self, trigger: Trigger) -> Result<(), String> {
        let settings = self.settings.read_again().map_err(|failure| describe(&failure))?;
        refuse_broken_files(&settings)?;
        let next = ReadConfig::read(self.args, &settings).map_err(|failure| describe(&failure))?;
        next.refuse_after(&self.current)?;
        let printer = &self.settings.printer;
        next.left_out_notes(Some(&self.current)).iter().for_each(|note| printer.note(note));
        let new_notes = next.untrusted.iter().filter(|untrusted| !self.current.untrusted.contains(untrusted));
        new_notes.for_each(|(_, note)| printer.note(note));
        let mut changes = self.reload_hosts(&settings, &next)?;
        let reload = self.gateway.reload(next.servers.iter().cloned());
        if !reload.is_empty() {
            changes.insert(0, describe_reload(&reload));
        }
        if let Some(pool) = &self.pool {
            pool.set_servers(&next.servers);
        }
        self.logins.set(login_commands(&settings, &next.servers));
        #[cfg(unix)]
        if let Some(file) = &mut self.pid_file {
            // The logins are those of the start.
            let key =
                super::daemon_key::DaemonKey::new(self.args, self.settings, (&next.servers, &next.views));
            if let Err(error) = file.set_key(key) {
                printer.note(&format!("the key of this daemon could not be written: {error}"));
            }
        }
        self.current = next;
        match (changes.is_empty(), trigger) {
            (false, _) => {
                printer.note(&format!("the configuration was reloaded: {}", changes.join("; ")));
            }
            (true, Trigger::Signal) => printer.note("the configuration was read again: nothing has changed"),
            (true, Trigger::ChangedFile) => {
                tracing::debug!("a configuration file was written again, with the same content");
            }
        }
        Ok(())
    }
}

impl Reloader<'_> {
    /// Takes over the views and `[serve]`, and says what of them has changed. Fails before anything has
    /// changed if they cannot be used.
    fn reload_hosts(&mut self, settings: &Settings, next: &ReadConfig) -> Result<Vec<String>, String> {
        let views = ViewChanges::new(&self.current.views, &next.views);
        let before = &self.current.serve;
        let has_limits = before.limits != next.serve.limits;
        let has_oauth = before.oauth != next.serve.oauth;
        if views.is_empty() && !has_limits && !has_oauth {
            return Ok(Vec::new());
        }
        let listener = self.targets.listener.as_ref();
        let listener = listener.map(|(listener, kind)| {
            let http = listen::reloaded_settings(&self.args.listen, settings, (&next.views, *kind));
            http.map(|http| (listener, http)).map_err(|failure| describe(&failure))
        });
        let listener = listener.transpose()?;
        if let Some(host_limits) = &self.targets.host_limits {
            host_limits.set(limits::host_limits(&next.serve.limits));
        }
        if !views.is_empty() {
            self.gateway.reload_views(next.views.iter().map(|(name, view)| (name.as_str(), view.clone())));
        }
        // A host that selects a view finds it in the gateway.
        if let Some((listener, http)) = listener {
            listener.reload(http);
        }
        let mut changes = Vec::new();
        changes.extend((!views.is_empty()).then(|| views.to_string()));
        changes.extend(has_limits.then(|| "[serve.limits]".to_owned()));
        changes.extend(has_oauth.then(|| "[serve.oauth]".to_owned()));
        Ok(changes)
    }
}

/// The commands that log in to these servers, by name.
pub(super) fn login_commands(settings: &Settings, servers: &[Server]) -> HashMap<String, String> {
    let command = |server: &Server| Some((server.name.clone(), settings.command_line.login_command(server)?));
    servers.iter().filter_map(command).collect()
}

/// Refuses files that are not valid as a whole. At the start, a server of another file would be used
/// all the same; but servers that are served must not go because of a slip in their file.
fn refuse_broken_files(settings: &Settings) -> Result<(), String> {
    let layers = settings.layers().map_err(|failure| describe(&failure))?;
    let mut problems = layers.iter().flat_map(|layer| &layer.problems);
    match problems.find(|problem| problem.server.is_none()) {
        None => Ok(()),
        Some(problem) => {
            let key = if problem.key.is_empty() { String::new() } else { format!("{}: ", problem.key) };
            let (file, line, column) = (problem.file.display(), problem.line, problem.column);
            Err(format!("{file}:{line}:{column}: {key}{}", problem.message))
        }
    }
}

/// The reason of a failure, on one line.
fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Report(report) => {
            let first = report.facts.iter().find_map(|fact| fact.lines.first());
            first.map_or_else(|| report.message.clone(), |first| format!("{}: {first}", report.message))
        }
        Failure::Signal(_) => "a signal has arrived".to_owned(),
        Failure::Output(error) => error.to_string(),
    }
}

/// What a reload has changed, such as `1 added (docs), 2 removed (files, web)`.
fn describe_reload(reload: &Reload) -> String {
    let kinds = [("added", &reload.added), ("changed", &reload.changed), ("removed", &reload.removed)];
    let kinds = kinds.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<_> =
        kinds.map(|(kind, names)| format!("{} {kind} ({})", names.len(), names.join(", "))).collect();
    parts.join(", ")
}

/// How often the files are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
