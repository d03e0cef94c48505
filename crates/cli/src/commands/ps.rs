//! Implements `bowline ps`.

use bowline::processes;
use serde_json::json;

use crate::args::PsArgs;
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::processes::{format_size, render, to_json, total_memory};
use crate::print::units;
use crate::settings::Settings;
use bowline_settings::private_folder;

pub(super) async fn run(args: PsArgs, settings: &Settings) -> Outcome {
    let PsArgs { clean } = args;
    let Some(folder) = env::process_records_folder(&*settings.env) else {
        return Err(Failure::usage("there is no folder for records of processes: HOME is not set"));
    };
    // Records that somebody else wrote could make us end processes that are not ours.
    private_folder::check_folder(&folder).map_err(|error| Failure::usage(error.to_string()))?;
    let printer = &settings.printer;
    if clean {
        let ended =
            processes::sweep(&folder).await.map_err(|error| Failure::file(&folder, &error.to_string()))?;
        if printer.is_json() {
            let ended = ended.iter().map(
                |orphan| json!({ "server": orphan.server, "pid": orphan.pid, "processes": orphan.processes }),
            );
            printer.write_json(&json!({ "ended": ended.collect::<Vec<_>>() }).to_string())?;
            return Ok(Exit::Ok);
        }
        for orphan in &ended {
            let processes = units::count(orphan.processes, "process");
            printer.write_text(&format!("ended {}: {processes} from pid {}", orphan.server, orphan.pid))?;
        }
        if ended.is_empty() {
            printer.note("no orphaned processes");
        }
        return Ok(Exit::Ok);
    }
    // Reads files and queries the system, so it runs on a blocking thread.
    let listed = tokio::task::spawn_blocking({
        let folder = folder.clone();
        move || processes::list(&folder)
    });
    let entries = match listed.await {
        Ok(Ok(entries)) => entries,
        Ok(Err(error)) => return Err(Failure::file(&folder, &error.to_string())),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    if printer.is_json() {
        printer.write_json(&to_json(&entries).to_string())?;
        return Ok(Exit::Ok);
    }
    if entries.is_empty() {
        printer.note("no server process is running");
        return Ok(Exit::Ok);
    }
    printer.write_layout(&render(&entries, printer))?;
    let total = entries.iter().map(total_memory).sum();
    printer.note(&format!("{}, {}", units::count(entries.len(), "server"), format_size(total)));
    if entries.iter().any(|entry| entry.is_orphan) {
        printer.note("some were orphaned; `bowline ps --clean` ends them");
    }
    Ok(Exit::Ok)
}
