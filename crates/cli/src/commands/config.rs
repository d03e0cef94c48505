//! Implements `bowline config check|schema|path`.

use bowline::Server;
use bowline::config::Problem;
use bowline_config::{ServerOutline, json_schema};
use serde_json::{Value, json};

use super::entries::describe_target;
use crate::args::{ConfigArgs, ConfigVerb};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, problem_json};
use crate::print::table::Table;
use crate::print::{json, units};
use crate::settings::Settings;
use crate::settings::server_selection::SkipReason;
use bowline_settings::{Layer, Layers, Origin, UntrustedFile};

pub(super) fn run(args: ConfigArgs, settings: &Settings) -> Outcome {
    let ConfigArgs { verb } = args;
    match verb {
        ConfigVerb::Check => check(settings),
        ConfigVerb::Schema => print_schema(settings),
        ConfigVerb::Path => print_paths(settings),
    }
}

/// Lists the servers that the files define, and fails if a file has problems.
fn check(settings: &Settings) -> Outcome {
    let layers = settings.layers()?;
    let printer = &settings.printer;
    if printer.is_json() {
        printer.write_json(&config_json(layers).to_string())?;
    } else {
        let mut table = Table::new(["NAME", "FROM", "STATE", "TRANSPORT"]);
        for layer in layers.iter() {
            for (name, server) in &layer.config.servers {
                let state = server_state(layers, layer, name, server);
                let (origin, transport) = (layer.origin.name().to_owned(), describe_transport(server));
                table.push_row([name.clone(), origin, state.to_owned(), transport]);
            }
            for name in &layer.config.left_out {
                let origin = layer.origin.name().to_owned();
                table.push_row([name.clone(), origin, "left out".to_owned(), String::new()]);
            }
        }
        for server in layers.untrusted().iter().flat_map(|project| &project.outline.servers) {
            let origin = Origin::Project.name().to_owned();
            table.push_row([server.name.clone(), origin, NOT_TRUSTED.to_owned(), describe_outline(server)]);
        }
        if table.is_empty() {
            printer.note("no servers are configured");
        } else {
            printer.write_layout(&table.render(printer))?;
        }
        for layer in layers.iter() {
            let servers = units::count(layer.config.servers.len(), "server");
            printer.note(&format!("{}: {servers}", layer.path.display()));
            notes(layer).for_each(|note| printer.note(&note.to_string()));
        }
        layers.untrusted().iter().for_each(|file| printer.note(&file.note()));
    }
    let wrong = layers.iter().find(|layer| !layer.problems.is_empty());
    match wrong {
        None => Ok(Exit::Ok),
        // In machine output, the object above has the problems.
        Some(_) if printer.is_json() => Ok(Exit::Usage),
        Some(_) => {
            let problems: Vec<_> = layers.iter().flat_map(|layer| layer.problems.clone()).collect();
            let files: Vec<String> = layers
                .iter()
                .filter(|layer| !layer.problems.is_empty())
                .map(|layer| layer.path.display().to_string())
                .collect();
            let count = units::count(problems.len(), "problem");
            Err(Failure::config(format!("{count} in {}", files.join(" and ")), problems))
        }
    }
}

fn config_json(layers: &Layers) -> Value {
    let files = layers.iter().map(|layer| {
        let servers = layer.config.servers.iter().map(|(name, server)| {
            json!({
                "name": name,
                "state": server_state(layers, layer, name, server),
                "transport": server.transport.as_str(),
            })
        });
        json!({
            "path": layer.path,
            "origin": layer.origin.name(),
            "servers": servers.collect::<Vec<_>>(),
            "left_out": layer.config.left_out,
            "problems": layer.problems.iter().map(problem_json).collect::<Vec<_>>(),
            "notes": notes(layer).map(|note| problem_json(&note)).collect::<Vec<_>>(),
        })
    });
    let untrusted = layers.untrusted().iter().map(untrusted_json);
    json!({"files": files.chain(untrusted).collect::<Vec<_>>()})
}

/// Describes an untrusted file as JSON. Its values are shown as written, with nothing expanded.
fn untrusted_json(project: &UntrustedFile) -> Value {
    let server = |server: &ServerOutline| {
        json!({
            "name": server.name,
            "state": NOT_TRUSTED,
            "command": server.command,
            "url": server.url,
        })
    };
    json!({
        "path": project.path,
        "origin": Origin::Project.name(),
        "not_trusted": project.reason.describe(),
        "servers": project.outline.servers.iter().map(server).collect::<Vec<_>>(),
        "left_out": [],
        "problems": [],
        "notes": project.outline.problem.iter().map(problem_json).collect::<Vec<_>>(),
    })
}

/// Returns the notes about a file, including settings that have no effect in a project.
fn notes(layer: &Layer) -> impl Iterator<Item = Problem> {
    let unused = match layer.origin {
        Origin::Project => layer.config.unused_in_project(),
        Origin::Named | Origin::User => Vec::new(),
    };
    layer.config.notes.iter().cloned().chain(unused)
}

/// Returns whether the server would be connected to, and if not, why.
fn server_state(layers: &Layers, layer: &Layer, name: &str, server: &Server) -> &'static str {
    let named =
        |other: &Layer| other.config.servers.contains_key(name) || other.config.left_out.contains(name);
    let stronger = layers.iter().skip_while(|other| other.path != layer.path).skip(1).any(named);
    if stronger {
        "overridden"
    } else if !server.enabled {
        "disabled"
    } else {
        "ok"
    }
}

/// Describes the command or URL without arguments and paths, which often hold keys.
fn describe_transport(server: &Server) -> String {
    format!("{} {}", server.transport.as_str(), describe_target(server))
}

/// Describes an entry of an untrusted file as written, with nothing expanded.
fn describe_outline(server: &ServerOutline) -> String {
    match (&server.command, &server.url) {
        (Some(command), _) => format!("stdio {command}"),
        (None, Some(url)) => format!("http {url}"),
        (None, None) => String::new(),
    }
}

const NOT_TRUSTED: &str = SkipReason::NotTrusted.as_str();

fn print_schema(settings: &Settings) -> Outcome {
    settings.printer.write_text(&json::pretty(&json_schema().to_string()))?;
    Ok(Exit::Ok)
}

fn print_paths(settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let paths = settings.files.paths();
    if printer.is_json() {
        let files = paths
            .iter()
            .map(|(path, origin)| json!({"path": path, "origin": origin.name(), "exists": path.exists()}));
        printer.write_json(&Value::Array(files.collect()).to_string())?;
        return Ok(Exit::Ok);
    }
    for (path, _) in paths {
        printer.write_text(&path.display().to_string())?;
        if !path.exists() {
            printer.note(&format!("{} does not exist", path.display()));
        }
    }
    Ok(Exit::Ok)
}
