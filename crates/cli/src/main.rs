//! The `bowline` command: args -> settings -> commands/<verb> -> print.

mod args;
mod arguments;
mod closing;
mod commands;
mod core_dump;
mod demo;
mod dialog;
mod env;
mod exit;
mod failure;
mod interaction;
mod interrupt;
mod kept_sessions;
#[cfg(unix)]
mod key_hasher;
mod list_cache;
mod log;
mod logins;
mod print;
#[cfg(unix)]
mod private_socket;
#[cfg(unix)]
mod process_pool;
#[cfg(not(unix))]
#[path = "process_pool_absent.rs"]
mod process_pool;
mod refresh_tracker;
mod search_index;
mod serve_sessions;
mod serve_task_key;
mod serve_token;
mod server_auth;
mod session;
mod settings;
mod shell;
mod suggested_command;
mod tasks;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use bowline::config::Environment;
use clap::Parser as _;
use tokio::runtime::Runtime;

use args::{Cli, Color, Format};
use exit::Exit;
use failure::{Failure, Outcome, Report};
use print::Printer;
use settings::Settings;
use suggested_command::CommandLine;

fn main() -> ExitCode {
    // Before anything that takes time: whoever starts `bowline serve` may send SIGHUP at once.
    if args::may_hear_hangups(std::env::args_os()) {
        interrupt::survive_hangups();
    }
    core_dump::disable_core_dumps();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let env = env::ProcessEnvironment::read();
    let argv = args::rewrite_json_flag(std::env::args_os());
    match Cli::try_parse_from(&argv) {
        Ok(cli) => {
            let command_line = CommandLine::new(&cli, &argv);
            run(cli, command_line, env, runtime).into()
        }
        Err(error) => report_usage_error(&args::suggest_separator(error, &argv), &argv, &env).into(),
    }
}

fn run(
    cli: Cli,
    command_line: CommandLine,
    env: env::ProcessEnvironment,
    runtime: io::Result<Runtime>,
) -> Exit {
    log::start(cli.global.verbose.max(cli.verb.min_verbosity()), &env);
    // Reports failures that happen before the settings are resolved.
    let format = if cli.global.json { Format::Json } else { cli.global.output.unwrap_or(Format::Text) };
    let early = Printer::new(format, cli.global.color, cli.global.quiet, &env);
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return report_outcome(&early, Err(Failure::Output(error))),
    };
    let settings = match Settings::resolve(cli.global, cli.verb.handler_args(), command_line, Box::new(env)) {
        Ok(settings) => settings,
        Err(failure) => return report_outcome(&early, Err(failure)),
    };
    let outcome = runtime.block_on(commands::run(cli.verb, &settings));
    let exit = report_outcome(&settings.printer, outcome);
    runtime.block_on(settings.pending_closes.wait());
    let lost = runtime.block_on(settings.refreshes.settle(&settings.printer));
    let exit = if lost { exit.with_lost_login() } else { exit };
    // Servers are closed by now, unless the user interrupted that; dropping the tasks ends their
    // processes then. A blocking read of stdin cannot be dropped and must not hold up the exit.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    exit
}

/// How long the runtime waits for tasks to be dropped.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// Prints the failure of a command, if it has one, and returns the exit code.
fn report_outcome(printer: &Printer, outcome: Outcome) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(Failure::Report(report)) => {
            printer.write_failure(&report);
            report.exit
        }
        Err(Failure::Signal(exit)) => exit,
        // The reader closed the pipe, as `head` does: that is not a failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(Failure::Output(error)) => {
            let report = Report::new(Exit::Output, format!("cannot write the output: {error}"));
            printer.write_failure(&report);
            report.exit
        }
    }
}

/// Prints help, the version, or an error in the arguments.
fn report_usage_error(error: &clap::Error, argv: &[OsString], env: &dyn Environment) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Ok;
    }
    // `--json` applies to this error too, although the arguments could not be parsed as a whole.
    let ours = argv.iter().take_while(|arg| *arg != "--");
    let json = ours.clone().any(|arg| arg == "--json" || arg == "--output=json")
        || ours.clone().zip(ours.skip(1)).any(|(flag, value)| flag == "--output" && value == "json");
    if json {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let tips: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  tip: ")).collect();
        let hint = (!tips.is_empty()).then(|| tips.join("; "));
        let printer = Printer::new(Format::Json, Color::Never, false, env);
        printer.write_failure(&Report { hint, ..Report::new(Exit::Usage, message) });
    } else {
        let _ = error.print();
    }
    Exit::Usage
}
