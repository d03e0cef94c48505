//! Builds the handlers for the requests of a server while a command runs: a person at the terminal
//! answers, or a policy where there is none; the configured model samples; the folders to work in
//! are the roots.

mod roots;

use std::path::PathBuf;

use bowline::Server;
use bowline::config::{ElicitationPolicy, Sampling, SamplingPolicy, Secret};
use bowline::host::{Host, Root, Roots};
use bowline::sampling::Provider;

use crate::args::{self, HandlerArgs};
use crate::dialog::{BrowserAccess, Dialogs, PreparedAnswers, TerminalLoginPrompt};
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// The handlers for what a server may request.
pub(crate) struct ServerHandlers {
    /// Handles elicitation, sampling and roots.
    pub(crate) host: Host,
    /// Asks the person to log in, or `None` if nobody is to be asked.
    pub(crate) login: Option<TerminalLoginPrompt>,
    /// The folders that the server is told of, if it asks.
    pub(crate) roots: Vec<Root>,
}

/// Builds the handlers for `server`. Every verb declares the same capabilities, since servers adapt
/// to what is declared.
pub(crate) async fn build_handlers(
    settings: &Settings,
    server: &Server,
    args: &HandlerArgs,
    dialogs: &Dialogs,
) -> Outcome<ServerHandlers> {
    let HandlerArgs { elicit, answers, roots, no_roots, sampling } = args.clone();
    let configured = ConfiguredHandlers::read(settings);
    let printer = &settings.printer;
    let policy = elicit.map(Into::into).or(configured.elicitation).unwrap_or_default();
    let asks = policy == ElicitationPolicy::Ask && dialogs.has_person();
    let login = asks.then(|| dialogs.login_prompt(BrowserAccess::detect(&*settings.env)));
    let answers = PreparedAnswers::parse(&answers)?;
    let mut host = Host::new().elicitation(dialogs.elicitation_handler(policy, answers));
    let configured_roots = server.roots.clone().or(configured.roots);
    let folders =
        if no_roots { Vec::new() } else { roots::resolve_roots(roots, configured_roots, printer).await? };
    if !folders.is_empty() {
        host = host.roots(Roots::new(folders.clone()));
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
            host = host.sampling(provider.approver(dialogs.sampling_approver()));
        }
    }
    Ok(ServerHandlers { host, login, roots: folders })
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
