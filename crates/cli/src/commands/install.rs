//! Implements `bowline install`: one entry in the configuration file of a host.

mod apply;
pub(super) mod drafts;
mod file_change;
mod launch;
mod list;
mod preview;
mod records;
mod served_twice;
mod uninstall;

use std::path::Path;

use bowline::config::Problem;
use bowline_config::closest_name;
use bowline_hosts::{EditError, Host, HostDocument, Insertion, Scope, ServerCommand, starts_bowline};
use bowline_settings::{ConfigFiles, Layers};
use serde_json::{Value, json};

use crate::args::{HostFileArgs, InstallArgs};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Fact, Failure, Outcome, Report};
use crate::settings::Settings;
use file_change::{FileChange, choose_file, read_host_file};
use launch::{Launch, choose_launch, find_on_path};
use records::{InstallRecords, InstalledEntry};
use served_twice::find_served_twice;

pub(super) use uninstall::run as run_uninstall;

/// Largest file of a host that is changed. That of Claude Code has the history of all projects.
const MAX_FILE_MEBIBYTES: u64 = 64;
/// The name of the entry for all servers.
const DEFAULT_NAME: &str = "bowline";

/// An entry that the user wants a host to have.
struct WantedEntry {
    name: String,
    /// The arguments of bowline.
    args: Vec<String>,
}

/// What `bowline install` would do to the file of one host.
struct InstallPlan {
    change: FileChange,
    /// The entries that are new or different.
    entries: Vec<InstalledEntry>,
    /// The names of entries that are already there.
    present: Vec<String>,
    /// Entries of other servers that are removed.
    removed: Vec<String>,
    /// Entries of other servers that bowline serves as well.
    served_twice: Vec<String>,
    /// How the host starts bowline, where that needs an explanation.
    note: Option<String>,
}

pub(super) async fn run(args: InstallArgs, settings: &Settings) -> Outcome {
    if args.hosts.is_empty() {
        return list::run(settings);
    }
    let wanted = wanted_entries(&args, settings)?;
    let records = InstallRecords::open(settings)?;
    let served = served_names(&args, settings);
    let plans: Vec<InstallPlan> = args
        .hosts
        .iter()
        .map(|host| make_plan(*host, &wanted, &served, &args, settings))
        .collect::<Outcome<_>>()?;
    let printer = &settings.printer;
    let changing: Vec<&InstallPlan> = plans.iter().filter(|plan| plan.has_changes()).collect();
    if !printer.is_json() {
        for plan in &plans {
            show_plan(plan, &args, settings)?;
        }
    }
    let is_done = !args.file.dry_run && !changing.is_empty();
    if is_done {
        let changes: Vec<&FileChange> = changing.iter().map(|plan| &plan.change).collect();
        file_change::confirm(&changes, &args.file, settings).await?;
        let _turn = super::entries::take_turn(settings).await?;
        for change in changes {
            drafts::remove_stale_drafts(&change.path);
            records.remove_stale_drafts(&change.path);
        }
        apply::apply_all(&changing, &records)?;
        for plan in changing {
            report_done(plan, &args, settings);
        }
        note_missing_servers(settings)?;
    }
    if printer.is_json() {
        let hosts: Vec<Value> = plans.iter().map(|plan| plan.to_json(&records, args.file.dry_run)).collect();
        printer.write_json(&json!({ "hosts": hosts }).to_string())?;
    }
    Ok(Exit::Ok)
}

/// The entries that the arguments ask for.
fn wanted_entries(args: &InstallArgs, settings: &Settings) -> Outcome<Vec<WantedEntry>> {
    let layers = settings.layers()?;
    let names = layers.server_names();
    if let Some(unknown) = args.servers.iter().find(|name| !names.contains(&name.as_str())) {
        let message = format!("there is no server named `{unknown}` in your configuration");
        let hint = match (closest_name(unknown, names), describe_file_problem(layers, settings)) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(problem)) => problem,
            (None, None) => "`bowline list` shows those that there are".to_owned(),
        };
        return Err(Failure::usage_hint(message, hint));
    }
    if let Some(view) = args.view.as_ref().filter(|view| !layers.views().contains_key(*view)) {
        let hint = describe_file_problem(layers, settings);
        return Err(Failure::usage_hint(
            format!("there is no view named `{view}` in your configuration"),
            hint.unwrap_or_else(|| format!("define it as [views.{view}]")),
        ));
    }
    if args.servers.len() > 1 && args.file.name.is_some() {
        return Err(Failure::usage("--name can name only one entry"));
    }
    let with_config = |words: &[&str]| -> Outcome<Vec<String>> {
        let mut words: Vec<String> = words.iter().map(ToString::to_string).collect();
        // The host may have neither the folder nor the variables of this shell.
        if let ConfigFiles::Single(path) = &settings.files {
            let whole = std::path::absolute(path);
            let whole = whole.as_deref().unwrap_or(path);
            words.extend(["--config".to_owned(), path_text(whole)?]);
        }
        Ok(words)
    };
    let name_or = |name: &str| args.file.name.clone().unwrap_or_else(|| name.to_owned());
    if args.servers.is_empty() {
        let mut words = vec!["serve", "--stdio"];
        if let Some(view) = &args.view {
            words.extend(["--view", view]);
        }
        return Ok(vec![WantedEntry { name: name_or(DEFAULT_NAME), args: with_config(&words)? }]);
    }
    let entry =
        |name: &String| Ok(WantedEntry { name: name_or(name), args: with_config(&["connect", name])? });
    args.servers.iter().map(entry).collect()
}

/// The servers that the host reaches through the wanted entries.
fn served_names(args: &InstallArgs, settings: &Settings) -> Vec<String> {
    if !args.servers.is_empty() {
        return args.servers.clone();
    }
    let names = settings.layers().map(|layers| layers.server_names()).unwrap_or_default();
    names.into_iter().map(ToOwned::to_owned).collect()
}

fn make_plan(
    host: Host,
    wanted: &[WantedEntry],
    served: &[String],
    args: &InstallArgs,
    settings: &Settings,
) -> Outcome<InstallPlan> {
    let path = choose_file(host, &args.file, settings, Path::exists)?;
    let before = read_host_file(&path)?;
    let launch = find_launch(host, settings)?;
    let mut document = parse_document(host, &path, before.as_deref())?;
    let mut plan = InstallPlan {
        change: FileChange::new(host, path, before),
        entries: Vec::new(),
        present: Vec::new(),
        removed: Vec::new(),
        served_twice: Vec::new(),
        note: launch.note.clone(),
    };
    for WantedEntry { name, args: words } in wanted {
        let command = to_command(&launch, words);
        let same = document.entries().map(|(other, _)| other.to_owned());
        let same = same.filter(|other| document.has_command(other, &command)).collect::<Vec<_>>();
        if let Some(present) = same.iter().find(|other| *other == name).or(same.first()) {
            if args.file.name.is_some() && present != name {
                return Err(plan.same_entry(present, &args.file, settings));
            }
            plan.present.push(present.clone());
            continue;
        }
        if let Some(entry) = document.entry(name) {
            if !starts_bowline(entry) && !args.replace_servers {
                return Err(plan.taken_name(name, !args.servers.is_empty()));
            }
            if !starts_bowline(entry) {
                plan.removed.push(name.clone());
            }
            document = plan.edited(document.remove(name), (&document, name, &command))?;
        }
        let Insertion { document: changed, inserted } =
            plan.edited(document.insert(name, &command), (&document, name, &command))?;
        document = changed;
        plan.entries.push(InstalledEntry { name: name.clone(), text: inserted });
    }
    let place = (host, plan.change.path.as_path());
    for name in find_served_twice(&document, place, served, settings) {
        if args.replace_servers {
            document = document.remove(&name).map_err(|error| plan.refusal(&error))?;
            plan.removed.push(name);
        } else {
            plan.served_twice.push(name);
        }
    }
    plan.change.after = Some(document.text().to_owned());
    plan.change.own_texts = plan.entries.iter().map(|entry| entry.text.clone()).collect();
    Ok(plan)
}

/// The command that starts bowline with these arguments.
fn to_command(launch: &Launch, args: &[String]) -> ServerCommand {
    let mut words = launch.words.iter().cloned();
    let program = words.next().unwrap_or_default();
    ServerCommand { program, args: words.chain(args.iter().cloned()).collect() }
}

fn find_launch(host: Host, settings: &Settings) -> Outcome<Launch> {
    let exe = std::env::current_exe().map_err(|error| {
        Failure::usage(format!("the path of this program is not known: {}", env::describe_io_error(&error)))
    })?;
    path_text(&exe)?;
    let path = env::non_empty_var(&*settings.env, "PATH").unwrap_or_default();
    Ok(choose_launch(host, &exe, find_on_path(&exe, path.as_ref()).as_ref()))
}

/// A path as text, which is all that the files of hosts can hold.
fn path_text(path: &Path) -> Outcome<String> {
    let text = path.to_str().map(ToOwned::to_owned);
    text.ok_or_else(|| {
        Failure::usage(format!("{} is not UTF-8, so that no host can name it", path.display()))
    })
}

fn parse_document(host: Host, path: &Path, text: Option<&str>) -> Outcome<HostDocument> {
    HostDocument::parse(host, text.unwrap_or_default()).map_err(|error| {
        let message = format!("{} cannot be changed: {error}; nothing was changed", path.display());
        Failure::usage_hint(message, format!("{} may say more about its file", host.name()))
    })
}

fn show_plan(plan: &InstallPlan, args: &InstallArgs, settings: &Settings) -> Outcome<()> {
    let printer = &settings.printer;
    let (host, path) = (plan.change.host, plan.change.path.display());
    for name in &plan.present {
        printer
            .note(&format!("bowline is already installed in {}: {path} has the entry `{name}`", host.name()));
    }
    if plan.has_changes() {
        printer.write_layout(&preview::render(&plan.change, printer))?;
        if let Some(note) = &plan.note {
            printer.note(note);
        }
    } else {
        note_served_twice(plan, args, settings);
    }
    Ok(())
}

fn report_done(plan: &InstallPlan, args: &InstallArgs, settings: &Settings) {
    let (host, path) = (plan.change.host, plan.change.path.display());
    let names: Vec<String> = plan.entries.iter().map(|entry| entry.name.clone()).collect();
    let undo = host_command("uninstall", plan, &args.file, settings, &[]);
    let what = match (names.is_empty(), plan.removed.is_empty()) {
        (false, true) => format!("wrote {} to {path}", quote(&names)),
        (false, false) => format!("wrote {} to {path}, and removed {}", quote(&names), quote(&plan.removed)),
        (true, _) => format!("removed {} from {path}", quote(&plan.removed)),
    };
    settings.printer.note(&format!("{what}; `{undo}` restores the file"));
    note_served_twice(plan, args, settings);
    settings.printer.note(&next_step(host));
}

/// Says which servers the host has from its own file as well as from bowline.
fn note_served_twice(plan: &InstallPlan, args: &InstallArgs, settings: &Settings) {
    if plan.served_twice.is_empty() {
        return;
    }
    let servers = args.servers.join(",");
    let mut options = vec!["--replace-servers"];
    if !servers.is_empty() {
        options.extend(["--servers", &servers]);
    }
    options.extend(args.file.name.iter().flat_map(|name| ["--name", name]));
    let replace = host_command("install", plan, &args.file, settings, &options);
    settings.printer.note(&format!(
        "{} has {} twice, from its own file and from bowline; `{replace}` removes the former",
        plan.change.host.name(),
        quote(&plan.served_twice),
    ));
}

/// A command for the same file of the same host.
fn host_command(
    verb: &str,
    plan: &InstallPlan,
    args: &HostFileArgs,
    settings: &Settings,
    options: &[&str],
) -> String {
    let path = plan.change.path.display().to_string();
    let mut words = vec![verb, plan.change.host.id()];
    words.extend(options);
    if args.path.is_some() {
        words.extend(["--file", &path]);
    } else if Scope::from(args.scope) == Scope::Project {
        words.extend(["--scope", "project"]);
    }
    settings.command_line.format_command(words)
}

/// Says that bowline has no servers, and how it gets some.
fn note_missing_servers(settings: &Settings) -> Outcome<()> {
    let layers = settings.layers()?;
    if layers.server_names().is_empty() {
        settings.printer.note(&match describe_file_problem(layers, settings) {
            Some(problem) => format!("bowline has no servers: {problem}"),
            None => "bowline has no servers yet: `bowline import` or `bowline add` adds some".to_owned(),
        });
    }
    Ok(())
}

/// Describes a problem of a configuration file as a whole, because of which nothing in it may be known, with the
/// command that shows all of them.
fn describe_file_problem(layers: &Layers, settings: &Settings) -> Option<String> {
    let mut problems = layers.iter().flat_map(|layer| &layer.problems);
    let Problem { file, line, key, message, .. } = problems.find(|problem| problem.server.is_none())?;
    let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
    let check = settings.command_line.format_command(["config", "check"]);
    Some(format!("{}:{line}: {key}{message}; `{check}` shows all problems", file.display()))
}

fn quote(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// How a person sees that the host has found the entry.
fn next_step(host: Host) -> String {
    let list = match host {
        Host::ClaudeCode => "claude mcp list",
        Host::Opencode => "opencode mcp list",
        Host::Codex => "codex mcp list",
        Host::GeminiCli => "gemini mcp list",
        Host::QwenCode => "qwen mcp list",
        Host::Mcporter => "mcporter list",
        Host::ClaudeDesktop
        | Host::Cursor
        | Host::VsCode
        | Host::Goose
        | Host::Hermes
        | Host::Zed
        | Host::Windsurf
        | Host::CopilotCli => return format!("start {} again, so that it reads its file", host.name()),
    };
    format!("see it with `{list}`")
}

impl InstallPlan {
    fn has_changes(&self) -> bool {
        self.change.before != self.change.after
    }

    /// Turns a refused edit into a failure that says what to add by hand.
    fn edited<T>(
        &self,
        edit: Result<T, EditError>,
        (document, name, command): (&HostDocument, &str, &ServerCommand),
    ) -> Outcome<T> {
        edit.map_err(|error| {
            let mut report = self.refusal_report(&error);
            let text = document.describe_entry(name, command);
            let lines = text.lines().map(ToOwned::to_owned).collect();
            report.facts.push(Fact { label: "entry", lines });
            report.members.insert("entry".into(), text.into());
            report.hint = Some(format!("add the entry to `{}` by hand", document.container_name()));
            report.into()
        })
    }

    fn refusal(&self, error: &EditError) -> Failure {
        self.refusal_report(error).into()
    }

    fn refusal_report(&self, error: &EditError) -> Report {
        let path = self.change.path.display();
        Report::new(Exit::Usage, format!("{path} cannot be changed safely: {error}; nothing was changed"))
    }

    /// The failure for an entry that is to have another name than the one that is there.
    fn same_entry(&self, present: &str, args: &HostFileArgs, settings: &Settings) -> Failure {
        let path = self.change.path.display();
        let remove = host_command("uninstall", self, args, settings, &["--name", present]);
        Failure::usage_hint(
            format!("{path} has this entry already, with the name `{present}`; nothing was changed"),
            format!("leave out --name to keep it, or remove it with `{remove}` first"),
        )
    }

    fn taken_name(&self, name: &str, is_server: bool) -> Failure {
        let path = self.change.path.display();
        let message = format!("{path} has an entry `{name}` that is something else; nothing was changed");
        let hint = if is_server {
            "`--replace-servers` replaces it, and `bowline uninstall` brings it back"
        } else {
            "choose another name with --name"
        };
        Failure::usage_hint(message, hint)
    }

    fn to_json(&self, records: &InstallRecords, is_dry_run: bool) -> Value {
        let state = match (self.has_changes(), is_dry_run) {
            (false, _) => "already_installed",
            (true, true) => "would_install",
            (true, false) => "installed",
        };
        let names = self.entries.iter().map(|entry| &entry.name).chain(&self.present);
        let backup = (state == "installed").then(|| records.find_backup(&self.change.path)).flatten();
        json!({
            "host": self.change.host.id(),
            "path": self.change.path.to_string_lossy(),
            "state": state,
            "entries": names.collect::<Vec<_>>(),
            "removed": self.removed,
            "served_twice": self.served_twice,
            "backup": backup.map(|path| path.to_string_lossy().into_owned()),
            "diff": preview::diff_lines(&self.change),
        })
    }
}

/// Whether the arguments ask for an entry of this name, or for any.
fn is_named(file: &HostFileArgs, name: &str) -> bool {
    file.name.as_deref().is_none_or(|wanted| wanted == name)
}
