//! Makes an entry of the description of a server in a registry: chooses between its URLs and packages, and puts the
//! command together.

use bowline_settings::EntryValue;

use super::super::new_server::{
    EnvValue, ForeignServer, NewServer, command_entry, parse_envs, parse_headers,
};
use super::description::{Argument, ArgumentKind, NamedInput, Package, Remote, ServerDescription, Way};
use super::values::{EntryText, ValueSource, WantedValue, check_choice, header_option, masked};
use crate::args::{AddArgs, UrlTransport};
use crate::dialog::Dialogs;
use crate::exit::Exit;
use crate::failure::{Fact, Failure, Outcome, Report};
use crate::settings::Settings;
use crate::suggested_command::shell_quote;

/// Makes the entry. What is missing is asked for.
pub(in super::super) async fn make_entry(
    description: ServerDescription,
    name: String,
    args: &AddArgs,
    settings: &Settings,
) -> Outcome<NewServer> {
    let printer = &settings.printer;
    let title = format!("{} {}", description.name, description.version);
    printer.note(&format!("{title}: {}", description.description));
    if let Some(warning) = &description.warning {
        printer.note(&format!("{title} is {warning}"));
    }
    let dialogs = Dialogs::open(printer, &*settings.env);
    let server = description.name.clone();
    let way = choose_way(description, args, &dialogs, settings).await?;
    let mut values = ValueSource::new(&server, &args.registry, dialogs)?;
    let new = match way {
        Way::Remote(remote) => make_remote(&remote, name, args, &mut values).await?,
        Way::Package(package) => make_package(&package, name, args, &mut values).await?,
    };
    let optional = values.finish()?;
    if !optional.is_empty() {
        printer.note(&format!("it also takes {}", optional.join(", ")));
    }
    Ok(new)
}

/// Chooses how the server is used: as the arguments say, as the person chooses, or the first way.
async fn choose_way(
    description: ServerDescription,
    args: &AddArgs,
    dialogs: &Dialogs,
    settings: &Settings,
) -> Outcome<Way> {
    let ServerDescription { name, mut ways, unusable, .. } = description;
    let all: Vec<_> = ways.iter().map(Way::describe).collect();
    let is_chosen_by_option =
        args.registry.remote || args.registry.package.is_some() || args.transport.is_some();
    ways.retain(|way| match way {
        Way::Remote(remote) => {
            args.registry.package.is_none()
                && args.transport.is_none_or(|transport| transport == remote.transport)
        }
        Way::Package(package) => {
            !args.registry.remote
                && args.transport.is_none()
                && args.registry.package.is_none_or(|kind| kind == package.kind)
        }
    });
    if ways.is_empty() {
        let (message, hint) = if all.is_empty() {
            (
                format!("`{name}` cannot be used"),
                "see its own pages for how to start it, then add its command",
            )
        } else {
            (format!("`{name}` is not offered in that way"), "leave out --remote, --package and --transport")
        };
        let mut report = Report::new(Exit::Usage, message);
        report.hint = Some(hint.to_owned());
        if !all.is_empty() {
            report
                .facts
                .push(Fact { label: "offered", lines: all.iter().map(|(title, _)| title.clone()).collect() });
        }
        if !unusable.is_empty() {
            report.facts.push(Fact { label: "not supported", lines: unusable });
        }
        return Err(report.into());
    }
    let mut at = 0;
    if ways.len() > 1 && !is_chosen_by_option {
        if dialogs.unavailable_reason().is_none() {
            let items = ways.iter().map(Way::describe);
            let chosen = dialogs.choose(&format!("? How is `{name}` used?"), items, 0).await?;
            at = chosen.ok_or_else(|| Failure::usage("nothing was chosen, and nothing was added"))?;
        } else {
            settings
                .printer
                .note("it can be used in several ways; --remote and --package choose another one");
        }
    }
    let way = ways.swap_remove(at);
    let (title, more) = way.describe();
    settings.printer.note(&format!("using {title} ({more})"));
    Ok(way)
}

impl Way {
    /// A title and a remark. Both may have text of the registry in them.
    fn describe(&self) -> (String, String) {
        match self {
            Self::Remote(remote) => {
                let transport = match remote.transport {
                    UrlTransport::Http => "Streamable HTTP",
                    UrlTransport::Sse => "HTTP+SSE",
                };
                (remote.url.clone(), format!("runs elsewhere, {transport}"))
            }
            Self::Package(package) => {
                let command = format!("{} {}", package.runner.join(" "), package.target);
                (command, format!("{} package, runs on this machine", package.kind_name()))
            }
        }
    }
}

async fn make_remote(
    remote: &Remote,
    name: String,
    args: &AddArgs,
    values: &mut ValueSource,
) -> Outcome<NewServer> {
    if !args.envs.is_empty() || args.cwd.is_some() {
        let hint = "use --package if it is to be started on this machine";
        return Err(Failure::usage_hint(
            "-e and --cwd are for a server that is started, and this one is a URL",
            hint,
        ));
    }
    let url = values.fill_template(&remote.url, &remote.variables, true, false).await?;
    let mut entry = vec![("url", EntryValue::Text(url.unwrap_or_default().written))];
    if remote.transport == UrlTransport::Sse {
        entry.push(("transport", EntryValue::Text("sse".to_owned())));
    }
    let mut headers = parse_headers(&args.headers)?;
    for NamedInput { name, input } in &remote.headers {
        if headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            continue;
        }
        let wanted =
            WantedValue { input, label: name, option: header_option(name), is_required: input.is_required };
        if let Some(value) = values.find(wanted).await? {
            headers.push((name.clone(), value.written));
        }
    }
    if !headers.is_empty() {
        entry.push(("headers", EntryValue::Table(headers)));
    }
    Ok(NewServer { name, entry, env: Vec::new(), foreign: None, notes: Vec::new() })
}

async fn make_package(
    package: &Package,
    name: String,
    args: &AddArgs,
    values: &mut ValueSource,
) -> Outcome<NewServer> {
    if !args.headers.is_empty() {
        let hint = "use --remote if it is to be used by its URL";
        return Err(Failure::usage_hint("-H is for a URL, and this server is started", hint));
    }
    let given = parse_envs(args.envs.clone());
    let (mut env, mut assignments) = (Vec::new(), Vec::new());
    for NamedInput { name, input } in &package.variables {
        if let Some((_, value)) = given.iter().find(|(key, _)| key == name) {
            if let EnvValue::Given(value) = value {
                check_choice(name, value, input)?;
            }
            continue;
        }
        let option = format!("-e {name}=VALUE");
        let wanted = WantedValue { input, label: name, option, is_required: input.is_required };
        if let Some(value) = values.find(wanted).await? {
            assignments.push(format!("{name}={}", shell_quote(&value.shown)));
            env.push((name.clone(), EnvValue::Given(value.written)));
        }
    }
    env.extend(given);
    let words = command_words(package, &env, values).await?;
    let shown = words.iter().map(|word| shell_quote(&word.shown));
    let shown: Vec<_> = assignments.into_iter().chain(shown).collect();
    let entry = command_entry(words.into_iter().map(|word| word.written), args.cwd.as_deref());
    let foreign = Some(ForeignServer::Command(shown.join(" ")));
    Ok(NewServer { name, entry, env, foreign, notes: Vec::new() })
}

/// The whole command of a package.
async fn command_words(
    package: &Package,
    env: &[(String, EnvValue)],
    values: &mut ValueSource,
) -> Outcome<Vec<EntryText>> {
    let fixed = |word: &str| EntryText { written: word.to_owned(), shown: word.to_owned() };
    let mut words: Vec<_> = package.runner.iter().map(|word| fixed(word)).collect();
    if package.runner[0] == "docker" {
        words.extend(env.iter().flat_map(|(name, _)| [fixed("-e"), fixed(name)]));
    }
    for argument in &package.runner_arguments {
        let further = argument_words(argument, values).await?;
        // Many descriptions repeat what the runner gets anyway.
        if !matches!(&*further, [word] if package.runner.contains(&&*word.written)) {
            words.extend(further);
        }
    }
    words.push(fixed(&package.target));
    for argument in &package.arguments {
        words.extend(argument_words(argument, values).await?);
    }
    Ok(words)
}

/// The words of one argument; none if it is left out.
async fn argument_words(argument: &Argument, values: &mut ValueSource) -> Outcome<Vec<EntryText>> {
    let input = &argument.input;
    let label = argument.label().unwrap_or("argument").to_owned();
    // A value of the description itself cannot be changed.
    let given = if input.value.is_none() { values.take_given(&label) } else { Vec::new() };
    let mut found = Vec::new();
    for value in given {
        check_choice(&label, &value, input)?;
        let shown = if input.is_secret { masked(&label) } else { value.clone() };
        found.push(EntryText { written: value, shown });
    }
    if found.is_empty() {
        let option = format!("--arg {}=VALUE", shell_quote(&label));
        let wanted = WantedValue { input, label: &label, option, is_required: input.is_required };
        found.extend(values.find(wanted).await?);
    }
    let words = found.into_iter().flat_map(|value| match (argument.kind, &argument.name) {
        (ArgumentKind::Named, Some(name)) => named_words(name, value),
        _ => vec![value],
    });
    Ok(words.collect())
}

/// A named argument: `--name=value`, so that the value is never taken for an option, or `-n value`.
fn named_words(name: &str, value: EntryText) -> Vec<EntryText> {
    let flag = EntryText { written: name.to_owned(), shown: name.to_owned() };
    if value.written.is_empty() {
        return vec![flag];
    }
    if name.starts_with("--") {
        let EntryText { written, shown } = value;
        return vec![EntryText { written: format!("{name}={written}"), shown: format!("{name}={shown}") }];
    }
    vec![flag, value]
}
