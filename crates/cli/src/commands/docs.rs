//! Implements `bowline completions`, the requests of its scripts, and `bowline man`.

use std::fs;
use std::io;

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs, ManArgs, ShellArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print;
use crate::settings::Settings;
use crate::shell;

pub(super) fn completions(args: &CompletionsArgs) -> Outcome {
    if let Some(script) = shell::script(args.shell) {
        print::write_stdout_bytes(script.as_bytes())?;
        return Ok(Exit::Ok);
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bowline", &mut script);
    print::write_stdout_bytes(&script)?;
    Ok(Exit::Ok)
}

pub(super) async fn complete(args: ShellArgs, settings: &Settings) -> Outcome {
    print::write_stdout_bytes(shell::complete(args, settings).await.as_bytes())?;
    Ok(Exit::Ok)
}

pub(super) fn man(args: ManArgs, settings: &Settings) -> Outcome {
    let ManArgs { folder } = args;
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        print::write_stdout_bytes(&page)?;
        return Ok(Exit::Ok);
    };
    let written =
        fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(Cli::command(), &folder));
    written.map_err(|error: io::Error| Failure::file(&folder, &error.to_string()))?;
    settings.printer.note(&format!("wrote the manual pages to {}", folder.display()));
    Ok(Exit::Ok)
}
