//! Implements `bowline add`.

mod new_server;

use bowline::config::Source;
use bowline::{Client, Era, Server};
use bowline_config::parse_partial;
use bowline_gateway::ServerLists;
use bowline_settings::{ConfigEditor, EntryValue};
use serde_json::json;

use self::new_server::{EnvValue, NewServer};
use super::entries::{own_file, take_turn};
use crate::args::AddArgs;
use crate::dialog::{ConfirmQuestion, Dialogs};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::list_cache::ListCache;
use crate::print::{escape, units};
use crate::session;
use crate::settings::Settings;
use crate::suggested_command::shell_quote;

pub(super) async fn run(args: AddArgs, settings: &Settings) -> Outcome {
    let (replace, no_check, yes) = (args.replace, args.no_check, args.yes);
    let new = NewServer::from_args(args)?;
    let mut editor = open_for(&new.name, replace, settings)?;
    let path = editor.path().display().to_string();
    if new.is_package && !yes && !no_check {
        approve(&new, settings).await?;
    }
    let entry = fill_in(&new, settings).await?;
    editor.set_server(&new.name, &entry);
    let server = parse(&editor, &new.name, settings)?;
    let printer = &settings.printer;
    let offered = if no_check {
        None
    } else {
        let checked = check(settings, &server).await;
        if checked.is_err() {
            printer.note(&format!("{path} was not changed; `--no-check` adds the entry as it is"));
        }
        Some(checked?)
    };
    // Others may have changed the file meanwhile, which must not be lost.
    let _turn = take_turn(settings).await?;
    let mut editor = open_for(&new.name, replace, settings)?;
    editor.set_server(&new.name, &entry);
    editor.save()?;
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

/// Opens the configuration file, if this entry may be added to it.
fn open_for(name: &str, replace: bool, settings: &Settings) -> Outcome<ConfigEditor> {
    let editor = ConfigEditor::open(own_file(settings)?)?;
    if editor.has_server(name) && !replace {
        return Err(Failure::usage_hint(
            format!("there is a server named `{name}` in {}", editor.path().display()),
            "choose another NAME, or use --replace",
        ));
    }
    Ok(editor)
}

/// Asks whether the command of a package may be started.
// SE-04
async fn approve(new: &NewServer, settings: &Settings) -> Outcome<()> {
    let command: Vec<_> = new.command_words().iter().map(|word| shell_quote(word)).collect();
    let command = command.join(" ");
    let text = format!("Start `{}`? It runs with your rights.", escape::line(&command));
    let question = ConfirmQuestion {
        text: &text,
        yes: "Yes, start it and add it",
        no: "No",
        unasked_message: format!("`{command}` was not started"),
        unasked_hint: "use --yes if it may be started, or --no-check to add it without starting it",
    };
    if Dialogs::open(&settings.printer, &*settings.env).confirm(question).await? {
        return Ok(());
    }
    Err(Failure::usage(format!("`{command}` was not started, and nothing was added")))
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
                // What looks like a placeholder is a part of the value.
                value.expose().replace("${", "$${")
            }
        };
        pairs.push((key.clone(), value));
    }
    if !pairs.is_empty() {
        entry.push(("env", EntryValue::Table(pairs)));
    }
    Ok(entry)
}

/// Reads the new entry the way that it will be read from the file.
fn parse(editor: &ConfigEditor, name: &str, settings: &Settings) -> Outcome<Server> {
    let source = Source::new(editor.path(), editor.text());
    let (mut config, errors) = parse_partial(&source, &*settings.env);
    if let Some(server) = config.servers.remove(name) {
        return Ok(server);
    }
    let problems = errors.map(|errors| errors.problems().to_vec()).unwrap_or_default();
    let of_server = problems.iter().filter(|problem| problem.server.as_deref() == Some(name));
    let mut told: Vec<_> = of_server.cloned().collect();
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
    ListCache::open(settings).update(server, |known| *known = lists);
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
