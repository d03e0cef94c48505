//! Implements `bowline add`.

mod install_link;
mod new_server;
mod registry;

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::config::{Source, Timeouts, Transport};
use bowline::{Client, Era, Server};
use bowline_config::{ProblemKind, escape_placeholders, find_placeholders, parse_partial};
use bowline_gateway::ServerLists;
use bowline_settings::{ConfigEditor, EntryValue};
use serde_json::json;
use url::Url;

use self::new_server::{EnvValue, ForeignServer, NewServer, registry_target};
use self::registry::Registry;
use super::entries::{own_file, take_turn};
use super::import_servers::unused_secrets::{find_secrets, remove_unused_secrets};
use crate::args::{AddArgs, format_duration};
use crate::dialog::{ConfirmQuestion, Dialogs};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::list_cache::ListCache;
use crate::print::{escape, units};
use crate::session;
use crate::settings::Settings;

pub(super) async fn run(args: AddArgs, settings: &Settings) -> Outcome {
    let (replace, no_check, yes) = (args.replace, args.no_check, args.yes);
    let (connect_timeout, message_limit) = (args.connect_timeout, args.message_limit);
    let (mut new, registry) = match registry_target(&args)? {
        Some((wanted, name)) => {
            open_for(&name, replace, settings)?;
            let registry = Registry::open(args.registry.url.as_deref(), settings)?;
            let description = registry.describe(&wanted).await?;
            (registry::make_entry(description, name, &args, settings).await?, Some(registry))
        }
        None => (NewServer::from_args(args)?, None),
    };
    new.entry.extend(connect_timeout_key(connect_timeout));
    new.entry.extend(message_limit.map(|mib| ("message_limit_mib", EntryValue::Number(mib.into()))));
    let mut editor = open_for(&new.name, replace, settings)?;
    let path = editor.path().display().to_string();
    new.notes.iter().for_each(|note| settings.printer.note(&escape::line(note)));
    match &new.foreign {
        Some(foreign) if yes || no_check => settings.printer.note(&foreign.describe()),
        Some(foreign) => approve(foreign, settings).await?,
        None => {}
    }
    let mut entry = fill_in(&new, settings).await?;
    if !no_check {
        ask_for_variables(&mut entry, settings).await?;
    }
    editor.set_server(&new.name, &entry);
    let server = parse(&editor, &new.name, no_check, settings)?;
    if let (Some(registry), Some(url)) = (&registry, server.as_ref().and_then(url_of)) {
        registry.check_remote(url).await?;
    }
    let printer = &settings.printer;
    let offered = match server.filter(|_| !no_check) {
        Some(server) => {
            // Boxed, since the compiler refuses futures that are nested too deep.
            let checked = Box::pin(check(settings, &server)).await;
            if checked.is_err() {
                printer.note(&format!("{path} was not changed; `--no-check` adds the entry as it is"));
            }
            Some(checked.map_err(|failure| with_login_hint(failure, &server, settings))?)
        }
        None => None,
    };
    // Others may have changed the file meanwhile, which must not be lost.
    let _turn = take_turn(settings).await?;
    let mut editor = open_for(&new.name, replace, settings)?;
    let stored_before = find_secrets(&editor, settings);
    editor.set_server(&new.name, &entry);
    editor.save()?;
    remove_unused_secrets(&stored_before, &editor, settings);
    if printer.is_json() {
        let offered = offered.as_ref().map(Offered::to_json);
        printer.write_json(&json!({ "name": new.name, "path": path, "offered": offered }).to_string())?;
        return Ok(Exit::Ok);
    }
    if let Some(offered) = &offered {
        printer.write_layout(&offered.to_text())?;
    }
    printer.note(&format!("added `{}` to {path}; see `bowline tools {}`", new.name, new.name));
    Ok(Exit::Ok)
}

/// Returns the key for a limit other than the default, which later commands need as well.
fn connect_timeout_key(limit: Option<Duration>) -> Option<(&'static str, EntryValue)> {
    let limit = limit.filter(|limit| *limit != Timeouts::default().connect)?;
    Some(("connect_timeout", EntryValue::Text(format_duration(limit))))
}

/// Opens the configuration file, if this entry may be added to it.
fn open_for(name: &str, replace: bool, settings: &Settings) -> Outcome<ConfigEditor> {
    // `.`, `..` and `-` mean something else to shells and programs. The parser refuses other bad names.
    if name.chars().all(|c| matches!(c, '.' | '-')) {
        return Err(Failure::usage_hint(
            format!("`{name}` cannot be the name of a server"),
            "choose a NAME with a letter, a digit or `_` in it",
        ));
    }
    let editor = ConfigEditor::open(own_file(settings)?)?;
    if editor.has_server(name) && !replace {
        return Err(Failure::usage_hint(
            format!("there is a server named `{name}` in {}", editor.path().display()),
            "choose another NAME, or use --replace",
        ));
    }
    Ok(editor)
}

impl ForeignServer {
    /// The server as a note, whole and on one line.
    fn describe(&self) -> String {
        match self {
            Self::Command(command) => format!("the command is `{}`", escape::line(command)),
            Self::Url(url) => format!("the URL is {}", escape::line(url)),
        }
    }
}

/// Asks whether what somebody else has published may be started or reached.
// SE-04
async fn approve(foreign: &ForeignServer, settings: &Settings) -> Outcome<()> {
    let (text, refused, yes, unasked_hint) = match foreign {
        ForeignServer::Command(command) => {
            let command = escape::line(command);
            (
                format!("Start `{command}`? It runs with your rights."),
                format!("`{command}` was not started"),
                "Yes, start it and add it",
                "use --yes if it may be started, or --no-check to add it without starting it",
            )
        }
        ForeignServer::Url(url) => {
            let url = escape::line(url);
            (
                format!("Connect to {url}? The address is from the link."),
                format!("did not connect to {url}"),
                "Yes, connect and add it",
                "use --yes to connect, or --no-check to add it without connecting",
            )
        }
    };
    let question =
        ConfirmQuestion { text: &text, yes, no: "No", unasked_message: refused.clone(), unasked_hint };
    if Dialogs::open(&settings.printer, &*settings.env).confirm(question).await? {
        return Ok(());
    }
    Err(Failure::usage(format!("{refused}, and nothing was added")))
}

/// The entry with the variables that it takes from the environment. Those that are not set are asked
/// for.
async fn fill_in(new: &NewServer, settings: &Settings) -> Outcome<Vec<(&'static str, EntryValue)>> {
    let mut entry = new.entry.clone();
    let mut pairs = Vec::new();
    for (key, value) in &new.env {
        let value = match value {
            EnvValue::Given(value) => value.clone(),
            EnvValue::Inherited if env::non_empty_var(&*settings.env, key).is_some() => format!("${{{key}}}"),
            EnvValue::Inherited => {
                let dialogs = Dialogs::open(&settings.printer, &*settings.env);
                let hint = format!("set {key}, or write -e {key}=VALUE");
                let value = dialogs.ask_secret(key, format!("{key} is not set"), hint).await?;
                to_literal(key, value.expose())?
            }
        };
        pairs.push((key.clone(), value));
    }
    if !pairs.is_empty() {
        entry.push(("env", EntryValue::Table(pairs)));
    }
    Ok(entry)
}

/// Asks for the variables that the entry names and that are not set. What is typed takes their place.
async fn ask_for_variables(entry: &mut [(&'static str, EntryValue)], settings: &Settings) -> Outcome<()> {
    let mut typed: BTreeMap<String, String> = BTreeMap::new();
    for text in entry.iter_mut().flat_map(|(_, value)| texts_mut(value)) {
        let found = find_placeholders(text).into_iter().filter(|found| !found.has_default);
        let found = found.filter_map(|found| Some((found.range, found.variable?.to_owned())));
        let unset: Vec<_> = found.filter(|(_, name)| settings.env.var(name).is_none()).collect();
        // From the end, so that what comes before stays where it is.
        for (range, name) in unset.into_iter().rev() {
            if !typed.contains_key(&name) {
                let dialogs = Dialogs::open(&settings.printer, &*settings.env);
                let hint = format!("set {name}, or use --no-check to add the entry as it is");
                let value = dialogs.ask_secret(&name, format!("{name} is not set"), hint).await?;
                typed.insert(name.clone(), to_literal(&name, value.expose())?);
            }
            text.replace_range(range, &typed[&name]);
        }
    }
    Ok(())
}

fn texts_mut(value: &mut EntryValue) -> Vec<&mut String> {
    match value {
        EntryValue::Text(text) => vec![text],
        EntryValue::List(texts) => texts.iter_mut().collect(),
        EntryValue::Table(pairs) => pairs.iter_mut().map(|(_, text)| text).collect(),
        EntryValue::Keys(keys) => keys.iter_mut().flat_map(|(_, value)| texts_mut(value)).collect(),
        EntryValue::Flag(_) | EntryValue::Number(_) => Vec::new(),
    }
}

/// A value that was typed, as it is written into the entry: what looks like a placeholder is a part of it.
fn to_literal(name: &str, value: &str) -> Outcome<String> {
    escape_placeholders(value).ok_or_else(|| {
        let message =
            format!("the value of {name} has `{{env:` or `{{file:` in it, which an entry cannot hold");
        Failure::usage_hint(message, format!("set {name} in your environment"))
    })
}

/// Says how to go on if a login is missing: `bowline login` needs the entry, which was not added.
fn with_login_hint(failure: Failure, server: &Server, settings: &Settings) -> Failure {
    match (failure, settings.command_line.login_command(server)) {
        (Failure::Report(mut report), Some(login)) if report.exit == Exit::Login => {
            report.hint = Some(format!("add it with --no-check, then run: {login}"));
            Failure::Report(report)
        }
        (failure, _) => failure,
    }
}

fn url_of(server: &Server) -> Option<&Url> {
    match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => Some(&http.url),
        _ => None,
    }
}

/// Reads the new entry the way that it will be read from the file. `None` if that is because of variables that
/// are not set, and it is to be added as it is.
fn parse(editor: &ConfigEditor, name: &str, no_check: bool, settings: &Settings) -> Outcome<Option<Server>> {
    let source = Source::new(editor.path(), editor.text());
    let (mut config, errors) = parse_partial(&source, &*settings.env);
    if let Some(server) = config.servers.remove(name) {
        return Ok(Some(server));
    }
    let problems = errors.map(|errors| errors.problems().to_vec()).unwrap_or_default();
    let of_server = problems.iter().filter(|problem| problem.server.as_deref() == Some(name));
    let mut told: Vec<_> = of_server.cloned().collect();
    if no_check && !told.is_empty() && told.iter().all(|problem| problem.kind == ProblemKind::Unresolved) {
        for problem in &told {
            settings.printer.note(&format!("set it before you use `{name}`: {}", problem.message));
        }
        return Ok(None);
    }
    if told.is_empty() {
        told = problems;
    }
    Err(Failure::config(format!("the entry `{name}` could not be used, so it was not added"), told))
}

/// What a server is and offers.
struct Offered {
    what: String,
    counts: [(usize, &'static str); 4],
}

/// Connects to a server, and remembers its lists.
async fn check(settings: &Settings, server: &Server) -> Outcome<Offered> {
    let (offered, lists) = session::with_client(settings, server, async |client: &Client| {
        let peer = client.peer().await?;
        let lists = ServerLists::fetch(client).await?;
        let who = peer.server.as_ref().map(|server| format!("{} {}", server.name, server.version));
        let era = if peer.era() == Era::Modern { "modern" } else { "legacy" };
        let (revision, transport) = (peer.revision.as_str(), client.transport());
        let what =
            format!("{}, {transport}, {revision} ({era})", who.unwrap_or_else(|| "a server".to_owned()));
        let counts = [
            (lists.tools.len(), "tool"),
            (lists.prompts.len(), "prompt"),
            (lists.resources.len(), "resource"),
            (lists.templates.len(), "template"),
        ];
        Ok((Offered { what, counts }, lists))
    })
    .await?;
    ListCache::open(settings).save(server, &lists);
    Ok(offered)
}

impl Offered {
    fn to_text(&self) -> String {
        let counts = self.counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, noun)| units::count(*count, noun)).collect();
        let counts = if counts.is_empty() { "nothing listed".to_owned() } else { counts.join(", ") };
        format!("{}\n{counts}\n", escape::line(&self.what))
    }

    fn to_json(&self) -> serde_json::Value {
        let [tools, prompts, resources, templates] = self.counts.map(|(count, _)| count);
        json!({
            "server": self.what, "tools": tools, "prompts": prompts, "resources": resources, "templates": templates,
        })
    }
}
