//! Handles the requests of a server while a command runs: a person at the terminal answers, or a
//! policy where there is none; the configured model samples; the folders to work in are the roots.
//!
//! Dialogs are state machines: keys change them and frames show them (`form`, `url_elicitation`,
//! `sampling_approval`). Only `terminal` reads keys and draws, so dialogs are tested without a
//! terminal.

mod answers;
mod approve;
mod browser;
mod confirm;
mod elicit;
mod field;
mod folders;
mod form;
mod host_consent;
mod key;
mod line;
mod login;
mod look;
mod menu;
mod page;
mod passphrase;
mod terminal;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use bowline::config::{ElicitationPolicy, Sampling, SamplingPolicy, Secret, Server};
use bowline::host::{Host, Roots};
use bowline::sampling::Provider;

use crate::args::{self, HostArgs};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::settings::Settings;
use answers::Answers;
use approve::Person;
use browser::Browser;
use elicit::Asker;
pub(crate) use login::Login;
use terminal::{Absent, Terminal};

pub(crate) use browser::Reach;

/// The dialogs of a session. They can report an interrupt, and have to be dismissed when the
/// session ends.
pub(crate) struct Dialogs(Option<Arc<Terminal>>);

impl Dialogs {
    /// Waits for Ctrl-C in a dialog, where it is a key and not a signal.
    pub(crate) async fn interrupted(&self) {
        match &self.0 {
            Some(terminal) => terminal.interrupted().await,
            None => std::future::pending().await,
        }
    }

    /// Dismisses the current dialog, and waits until the terminal is restored.
    pub(crate) async fn dismiss(&self) {
        if let Some(terminal) = &self.0 {
            terminal.dismiss().await;
        }
    }
}

/// The handlers for what a server may request.
pub(crate) struct Asked {
    /// Handles elicitation, sampling and roots.
    pub(crate) host: Host,
    /// Asks the person to log in, or `None` if nobody is to be asked.
    pub(crate) login: Option<Login>,
    pub(crate) dialogs: Dialogs,
}

/// Builds the handlers for `server`. Every verb declares the same capabilities, since servers adapt
/// to what is declared.
pub(crate) async fn of(settings: &Settings, server: &Server) -> Outcome<Asked> {
    let HostArgs { elicit, answers, roots, no_roots, sampling } = settings.host.clone();
    let configured = Configured::read(settings);
    let printer = &settings.printer;
    let terminal = find(settings);
    let policy = elicit.map(Into::into).or(configured.elicitation).unwrap_or_default();
    let asks = policy == ElicitationPolicy::Ask && !matches!(terminal, Err(Absent::NoTerminal));
    let login = asks.then(|| at(&terminal, Reach::of(&*settings.env), settings));
    let asker = Asker {
        policy,
        terminal: terminal.clone(),
        answers: Answers::parse(&answers)?,
        browser: Browser::new(env::given(&*settings.env, env::BROWSER).as_deref()),
        printer: printer.clone(),
    };
    let mut host = Host::new().elicitation(asker);
    let configured_roots = server.roots.clone().or(configured.roots);
    let folders =
        if no_roots { Vec::new() } else { folders::named(roots, configured_roots, printer).await? };
    if !folders.is_empty() {
        host = host.roots(Roots::new(folders));
    }
    let wants_model = matches!(sampling, Some(args::Sampling::Ask | args::Sampling::Allow));
    if wants_model && configured.sampling.is_none() {
        return Err(Failure::usage_hint(
            "--sampling: there is no model that servers could ask",
            "name one under [sampling] in your configuration file",
        ));
    }
    if let Some(mut model) = configured.sampling {
        model.policy = sampling.map(Into::into).or(server.sampling).unwrap_or(model.policy);
        if let Some(provider) = provider(settings, model) {
            host = host.sampling(provider.approver(Person::new(terminal.clone(), printer.clone())));
        }
    }
    Ok(Asked { host, login, dialogs: Dialogs(terminal.ok()) })
}

/// Returns a login prompt, its dialogs, and whether a person can be asked at all.
pub(crate) fn person(settings: &Settings, reach: Reach) -> (Login, Dialogs, bool) {
    let terminal = find(settings);
    let there = !matches!(terminal, Err(Absent::NoTerminal));
    (at(&terminal, reach, settings), Dialogs(terminal.ok()), there)
}

/// Asks the person for a passphrase, twice if it is `new`.
pub(crate) async fn passphrase(settings: &Settings, new: bool) -> Outcome<Secret> {
    let elsewhere = format!("set {}, or use --passphrase-file", env::PASSPHRASE);
    let terminal = match find(settings) {
        Ok(terminal) => terminal,
        Err(absent) => {
            let message = format!("there is no passphrase, as {}", absent.why());
            return Err(Failure::usage_hint(message, elsewhere));
        }
    };
    let mut interrupt = Interrupt::listen();
    let answer = tokio::select! {
        answer = passphrase::ask(&terminal, new) => answer,
        exit = interrupt.next() => {
            terminal.dismiss().await;
            return Err(Failure::Signal(exit));
        }
        () = terminal.interrupted() => return Err(Failure::Signal(Exit::Interrupted)),
    };
    answer.ok().flatten().ok_or_else(|| Failure::usage_hint("there is no passphrase", elsewhere))
}

/// Asks a question whose default is no. Fails with a hint if nobody can be asked.
pub(crate) async fn confirm(settings: &Settings, question: Question<'_>) -> Outcome<bool> {
    let terminal = match find(settings) {
        Ok(terminal) => terminal,
        Err(absent) => {
            let message = format!("{}, as {}", question.unasked, absent.why());
            return Err(Failure::usage_hint(message, question.instead));
        }
    };
    let mut interrupt = Interrupt::listen();
    let answer = tokio::select! {
        answer = confirm::ask(&terminal, question.text, question.yes, question.no) => answer,
        exit = interrupt.next() => {
            terminal.dismiss().await;
            return Err(Failure::Signal(exit));
        }
        () = terminal.interrupted() => return Err(Failure::Signal(Exit::Interrupted)),
    };
    Ok(answer.unwrap_or(false))
}

/// A question that is answered by yes or no.
pub(crate) struct Question<'a> {
    pub(crate) text: &'a str,
    pub(crate) yes: &'static str,
    pub(crate) no: &'static str,
    /// Start of the error message if nobody can be asked.
    pub(crate) unasked: String,
    /// Hint of that error.
    pub(crate) instead: &'static str,
}

/// Checks that a new passphrase is strong enough, wherever it comes from.
pub(crate) fn is_passphrase(passphrase: &str) -> Outcome<()> {
    passphrase::is_enough(passphrase).map_err(|why| Failure::usage(format!("the passphrase: {why}")))
}

fn find(settings: &Settings) -> Result<Arc<Terminal>, Absent> {
    let printer = &settings.printer;
    Terminal::find(printer.is_dumb(), printer.notes_in_color()).map(Arc::new)
}

fn at(terminal: &Result<Arc<Terminal>, Absent>, reach: Reach, settings: &Settings) -> Login {
    Login {
        terminal: terminal.clone(),
        browser: Browser::new(env::given(&*settings.env, env::BROWSER).as_deref()),
        reach,
        printer: settings.printer.clone(),
    }
}

/// The handler settings of the trusted configuration files.
#[derive(Default)]
struct Configured {
    elicitation: Option<ElicitationPolicy>,
    roots: Option<Vec<PathBuf>>,
    sampling: Option<Sampling>,
}

impl Configured {
    fn read(settings: &Settings) -> Self {
        let Ok(layers) = settings.layers() else {
            // The files cannot be read: a person can still be asked, and no roots are disclosed.
            return Self { roots: Some(Vec::new()), ..Self::default() };
        };
        let mut found = Self::default();
        for layer in layers.iter() {
            let config = &layer.config;
            found.elicitation = config.elicitation.or(found.elicitation);
            found.roots = config.roots.clone().or(found.roots);
            found.sampling = config.sampling.clone().or(found.sampling);
        }
        found
    }
}

/// Returns the model, unless policy denies it or its key is missing; that must not fail the
/// command.
fn provider(settings: &Settings, model: Sampling) -> Option<Provider> {
    if model.policy == SamplingPolicy::Deny {
        return None;
    }
    let key = model.key_env.as_ref().map(|name| env::given(&*settings.env, name));
    if let (Some(name), Some(None)) = (&model.key_env, &key) {
        settings.printer.note(&format!("servers are not offered your model: {name} is not set"));
        return None;
    }
    match Provider::with_key(model, key.flatten().map(|key| Secret::new(key.trim()))) {
        Ok(provider) => Some(provider),
        Err(error) => {
            settings.printer.note(&format!("servers are not offered your model: {error}"));
            None
        }
    }
}
