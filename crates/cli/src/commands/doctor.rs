//! Implements `bowline doctor`: what is wrong, whose fault it is, and what fixes it.
//!
//! | file | decides |
//! |---|---|
//! | `check` | what the result of a check is |
//! | `configuration`, `installation` | what is checked of the files, the store, the clock and the processes |
//! | `server` | which checks of a server are made, in which order |
//! | `program`, `network`, `tls`, `connection`, `authorization`, `clock` | what is checked of a server, and what each outcome means |
//! | `interpreter` | which version of an interpreter runs a server |
//! | `fault` | what a fault of a connection means |
//! | `fixed_setting` | whether a setting is at fault that fixes the transport or the era |
//! | `default_endpoints` | whether the endpoints of a login exist that no metadata names |
//! | `stderr_lines` | which lines of stderr are shown, and whether they blame the command line |
//! | `subject` | which commands about a server can be suggested |
//! | `render`, `report_file` | how it is shown, and what is in a report |

mod authorization;
mod check;
mod clock;
mod configuration;
mod connection;
mod default_endpoints;
mod fault;
mod fixed_setting;
mod installation;
mod interpreter;
mod network;
mod program;
mod render;
mod report_file;
mod server;
mod stderr_lines;
mod subject;
mod tls;

use std::time::Duration;

use bowline::Server;
use bowline_settings::{Layers, Origin};
use futures_util::StreamExt as _;

use self::check::{Check, CheckLog, Finding};
use self::configuration::ServerEntry;
use self::render::Summary;
use self::subject::Subject;
use super::entries::describe_target;
use crate::args::{DoctorArgs, TargetArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::print::progress::Bar;
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;

/// Everything that was checked.
struct Examination {
    /// Checks of the installation; empty if one server was asked for.
    installation: Vec<Check>,
    servers: Vec<ServerExamination>,
}

/// The checks of one server.
struct ServerExamination {
    name: String,
    transport: &'static str,
    /// The command without its arguments, or the URL without what may be a key.
    target: String,
    checks: Vec<Check>,
}

impl Examination {
    fn checks(&self) -> impl Iterator<Item = &Check> {
        self.installation.iter().chain(self.servers.iter().flat_map(|server| &server.checks))
    }
}

/// How many servers are examined at the same time.
const MAX_CONCURRENT: usize = 8;

pub(super) async fn run(args: DoctorArgs, settings: &Settings) -> Outcome {
    let DoctorArgs { words, report, target } = args;
    if let Some(path) = &report {
        report_file::check_path(path)?;
    }
    let is_everything = words.is_empty() && target.command.is_empty();
    if is_everything && target.has_overrides() {
        return Err(Failure::usage("these options are for one server: name it"));
    }
    let printer = &settings.printer;
    let mut interrupt = Interrupt::listen();
    let bar = Bar::start(printer, "examining");
    let examined = tokio::select! {
        examined = examine(words, target, settings) => examined,
        exit = interrupt.next() => Err(Failure::Signal(exit)),
    };
    bar.finish();
    let (examination, examined_server) = examined?;
    if printer.is_json() {
        printer.write_json(&render::to_json(&examination).to_string())?;
    } else {
        printer.write_layout(&render::render(&examination, printer))?;
        printer.note(&Summary::of(examination.checks()).describe());
    }
    if let Some(path) = report {
        let configured = settings.layers().ok().into_iter().flat_map(Layers::iter);
        let configured = configured.flat_map(|layer| layer.config.servers.values());
        let servers = configured.chain(examined_server.as_ref());
        report_file::write(&path, &report_file::format(&examination, servers, settings))?;
        printer.note(&format!("the report is in {}; look at it before you attach it", path.display()));
    }
    Ok(check::worst_exit(examination.checks()))
}

/// Examines what was asked for. Returns the server as well, if there was one.
async fn examine(
    words: Vec<String>,
    target: TargetArgs,
    settings: &Settings,
) -> Outcome<(Examination, Option<Server>)> {
    if words.is_empty() && target.command.is_empty() {
        return Ok((examine_everything(settings).await, None));
    }
    let name = PositionalArgs::new("doctor", "", words, &target.command)?
        .finish(|name| settings.is_configured(name))?;
    let layers = settings.layers();
    let is_configured = name.as_ref().is_some_and(|name| !name.contains("://"));
    if let (Some(name), true, Ok(layers)) = (&name, is_configured, &layers)
        && let ServerEntry::Unusable(finding) = configuration::find_entry(name, layers, settings)
    {
        return Ok((
            Examination { installation: Vec::new(), servers: vec![unusable_server(name, finding)] },
            None,
        ));
    }
    let options = subject::repeated_options(&target);
    // Says what is wrong with a name that is not known, and applies the options.
    let server = settings.resolve_server(name.as_deref(), target)?;
    let log = CheckLog::default();
    let mut is_editable = false;
    let finding = match (&name, is_configured, &layers) {
        (Some(name), true, Ok(layers)) => match configuration::find_entry(name, layers, settings) {
            ServerEntry::Usable(_, layer) => {
                is_editable = layer.origin != Origin::Project;
                configuration::usable_finding(name, layer)
            }
            _ => Finding::ok("configured"),
        },
        _ => Finding::ok("none: it is on the command line"),
    };
    log.add_timed("configuration", Duration::ZERO, finding);
    let command_line = &settings.command_line;
    let typed = name.as_deref();
    let subject =
        Subject { server: &server, command_line, typed, options: &options, proxy: None, is_editable };
    server::examine(settings, &subject, &log).await;
    let examined = server_examination(&server, log);
    Ok((Examination { installation: Vec::new(), servers: vec![examined] }, Some(server)))
}

async fn examine_everything(settings: &Settings) -> Examination {
    let log = CheckLog::default();
    installation::check(settings, &log).await;
    let mut servers = Vec::new();
    if let Ok(layers) = settings.layers() {
        let names = layers.server_names();
        let examinations = names.iter().map(|name| examine_configured(name, layers, settings));
        let examinations: Vec<Option<ServerExamination>> =
            futures_util::stream::iter(examinations).buffered(MAX_CONCURRENT).collect().await;
        servers.extend(examinations.into_iter().flatten());
    }
    Examination { installation: log.take(), servers }
}

/// Examines a configured server; `None` if it is not meant to be used.
async fn examine_configured(name: &str, layers: &Layers, settings: &Settings) -> Option<ServerExamination> {
    let (server, layer) = match configuration::find_entry(name, layers, settings) {
        ServerEntry::Usable(server, layer) => (server, layer),
        ServerEntry::Unusable(finding) => return Some(unusable_server(name, finding)),
        ServerEntry::Disabled | ServerEntry::Unknown => return None,
    };
    let log = CheckLog::default();
    log.add_timed("configuration", Duration::ZERO, configuration::usable_finding(name, layer));
    let is_editable = layer.origin != Origin::Project;
    let command_line = &settings.command_line;
    let subject = Subject { server, command_line, typed: Some(name), options: &[], proxy: None, is_editable };
    server::examine(settings, &subject, &log).await;
    Some(server_examination(server, log))
}

fn server_examination(server: &Server, log: CheckLog) -> ServerExamination {
    ServerExamination {
        name: server.name.clone(),
        transport: server.transport.as_str(),
        target: describe_target(server),
        checks: log.take(),
    }
}

/// Returns the examination of a server whose entry cannot be used.
fn unusable_server(name: &str, finding: Finding) -> ServerExamination {
    let checks = vec![Check { name: "configuration", duration: Duration::ZERO, finding }];
    ServerExamination { name: name.to_owned(), transport: "", target: String::new(), checks }
}
