//! Handles the requests of a server while a command runs: a person at the terminal answers, or a
//! policy where there is none; the configured model samples; the folders to work in are the roots.
//!
//! Dialogs are state machines: keys change them and frames show them (`form`, `url_elicitation`,
//! `sampling_approval`). Only `terminal` reads keys and draws, so dialogs are tested without a
//! terminal.

mod ask_confirmation;
mod ask_passphrase;
mod browser;
mod elicitation;
mod field;
mod foreign_login_host;
mod form;
mod frame;
mod key;
mod line_editor;
mod login_prompt;
mod menu;
mod prepared_answers;
mod roots;
mod sampling_approval;
mod terminal;
mod url_elicitation;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use bowline::config::{ElicitationPolicy, Sampling, SamplingPolicy, Secret, Server};
use bowline::host::{Host, Roots};
use bowline::sampling::Provider;

use crate::args::{self, HandlerArgs};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::settings::Settings;
use browser::Browser;
use elicitation::ElicitationHandler;
pub(crate) use login_prompt::TerminalLoginPrompt;
use prepared_answers::PreparedAnswers;
use sampling_approval::SamplingApprover;
use terminal::{Terminal, TerminalUnavailable};

pub(crate) use browser::BrowserAccess;

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
pub(crate) struct ServerHandlers {
    /// Handles elicitation, sampling and roots.
    pub(crate) host: Host,
    /// Asks the person to log in, or `None` if nobody is to be asked.
    pub(crate) login: Option<TerminalLoginPrompt>,
    pub(crate) dialogs: Dialogs,
}

/// Builds the handlers for `server`. Every verb declares the same capabilities, since servers adapt
/// to what is declared.
pub(crate) async fn build_handlers(settings: &Settings, server: &Server) -> Outcome<ServerHandlers> {
    let HandlerArgs { elicit, answers, roots, no_roots, sampling } = settings.handler_args.clone();
    let configured = ConfiguredHandlers::read(settings);
    let printer = &settings.printer;
    let terminal = open_terminal(settings);
    let policy = elicit.map(Into::into).or(configured.elicitation).unwrap_or_default();
    let asks = policy == ElicitationPolicy::Ask && !matches!(terminal, Err(TerminalUnavailable::NoTerminal));
    let login = asks.then(|| login_prompt_at(&terminal, BrowserAccess::detect(&*settings.env), settings));
    let asker = ElicitationHandler {
        policy,
        terminal: terminal.clone(),
        answers: PreparedAnswers::parse(&answers)?,
        browser: Browser::new(env::non_empty_var(&*settings.env, env::BROWSER).as_deref()),
        printer: printer.clone(),
    };
    let mut host = Host::new().elicitation(asker);
    let configured_roots = server.roots.clone().or(configured.roots);
    let folders =
        if no_roots { Vec::new() } else { roots::resolve_roots(roots, configured_roots, printer).await? };
    if !folders.is_empty() {
        host = host.roots(Roots::new(folders));
    }
    let wants_model = matches!(sampling, Some(args::SamplingMode::Ask | args::SamplingMode::Allow));
    if wants_model && configured.sampling.is_none() {
        return Err(Failure::usage_hint(
            "--sampling: there is no model that servers could ask",
            "name one under [sampling] in your configuration file",
        ));
    }
    if let Some(mut model) = configured.sampling {
        model.policy = sampling.map(Into::into).or(server.sampling).unwrap_or(model.policy);
        if let Some(provider) = sampling_provider(settings, model) {
            host = host.sampling(provider.approver(SamplingApprover::new(terminal.clone(), printer.clone())));
        }
    }
    Ok(ServerHandlers { host, login, dialogs: Dialogs(terminal.ok()) })
}

/// Returns a login prompt, its dialogs, and whether a person can be asked at all.
pub(crate) fn open_login_prompt(
    settings: &Settings,
    reach: BrowserAccess,
) -> (TerminalLoginPrompt, Dialogs, bool) {
    let terminal = open_terminal(settings);
    let there = !matches!(terminal, Err(TerminalUnavailable::NoTerminal));
    (login_prompt_at(&terminal, reach, settings), Dialogs(terminal.ok()), there)
}

/// Asks the person for a passphrase, twice if it is `new`.
pub(crate) async fn passphrase(settings: &Settings, new: bool) -> Outcome<Secret> {
    let elsewhere = format!("set {}, or use --passphrase-file", env::PASSPHRASE);
    let terminal = match open_terminal(settings) {
        Ok(terminal) => terminal,
        Err(absent) => {
            let message = format!("there is no passphrase, as {}", absent.reason());
            return Err(Failure::usage_hint(message, elsewhere));
        }
    };
    let mut interrupt = Interrupt::listen();
    let answer = tokio::select! {
        answer = ask_passphrase::ask_passphrase(&terminal, new) => answer,
        exit = interrupt.next() => {
            terminal.dismiss().await;
            return Err(Failure::Signal(exit));
        }
        () = terminal.interrupted() => return Err(Failure::Signal(Exit::Interrupted)),
    };
    answer.ok().flatten().ok_or_else(|| Failure::usage_hint("there is no passphrase", elsewhere))
}

/// Asks a question whose default is no. Fails with a hint if nobody can be asked.
pub(crate) async fn confirm(settings: &Settings, question: ConfirmQuestion<'_>) -> Outcome<bool> {
    let terminal = match open_terminal(settings) {
        Ok(terminal) => terminal,
        Err(absent) => {
            let message = format!("{}, as {}", question.unasked_message, absent.reason());
            return Err(Failure::usage_hint(message, question.unasked_hint));
        }
    };
    let mut interrupt = Interrupt::listen();
    let answer = tokio::select! {
        answer = ask_confirmation::ask_confirmation(&terminal, question.text, question.yes, question.no) => answer,
        exit = interrupt.next() => {
            terminal.dismiss().await;
            return Err(Failure::Signal(exit));
        }
        () = terminal.interrupted() => return Err(Failure::Signal(Exit::Interrupted)),
    };
    Ok(answer.unwrap_or(false))
}

/// A question that is answered by yes or no.
pub(crate) struct ConfirmQuestion<'a> {
    pub(crate) text: &'a str,
    pub(crate) yes: &'static str,
    pub(crate) no: &'static str,
    /// Start of the error message if nobody can be asked.
    pub(crate) unasked_message: String,
    /// Hint of that error.
    pub(crate) unasked_hint: &'static str,
}

/// Checks that a new passphrase is strong enough, wherever it comes from.
pub(crate) fn check_passphrase(passphrase: &str) -> Outcome<()> {
    ask_passphrase::check_strength(passphrase).map_err(|why| Failure::usage(format!("the passphrase: {why}")))
}

fn open_terminal(settings: &Settings) -> Result<Arc<Terminal>, TerminalUnavailable> {
    let printer = &settings.printer;
    Terminal::open(printer.is_dumb(), printer.stderr_has_color()).map(Arc::new)
}

fn login_prompt_at(
    terminal: &Result<Arc<Terminal>, TerminalUnavailable>,
    reach: BrowserAccess,
    settings: &Settings,
) -> TerminalLoginPrompt {
    TerminalLoginPrompt {
        terminal: terminal.clone(),
        browser: Browser::new(env::non_empty_var(&*settings.env, env::BROWSER).as_deref()),
        browser_access: reach,
        printer: settings.printer.clone(),
    }
}

/// The handler settings of the trusted configuration files.
#[derive(Default)]
struct ConfiguredHandlers {
    elicitation: Option<ElicitationPolicy>,
    roots: Option<Vec<PathBuf>>,
    sampling: Option<Sampling>,
}

impl ConfiguredHandlers {
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
fn sampling_provider(settings: &Settings, model: Sampling) -> Option<Provider> {
    if model.policy == SamplingPolicy::Deny {
        return None;
    }
    let key = model.key_env.as_ref().map(|name| env::non_empty_var(&*settings.env, name));
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
