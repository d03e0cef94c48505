//! Owns what the arguments mean together with the environment and the configuration files.

pub(crate) mod files;
pub(crate) mod many;
mod suggest;
pub(crate) mod target;
pub(crate) mod words;

use std::path::PathBuf;

use bowline::config::Environment;

pub(crate) use suggest::closest;

use crate::args::{Format, GlobalArgs, HostArgs};
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::print::Printer;
use crate::session::{Closings, Folders};
use files::Choice;

/// What every verb needs.
pub(crate) struct Settings {
    /// Where output goes.
    pub(crate) printer: Printer,
    /// Which configuration files count.
    pub(crate) files: Choice,
    /// Whether servers of a project's file may be connected to.
    pub(crate) trust: Trust,
    /// What a server gets that asks for something.
    pub(crate) host: HostArgs,
    /// Variables, and files that the configuration names.
    pub(crate) env: Box<dyn Environment>,
    /// Connections that commands are done with.
    pub(crate) closings: Closings,
}

/// Whether the person vouches for the project's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Its servers may be started and reached.
    Project,
    /// They may be listed.
    NoProject,
}

impl Settings {
    /// Resolves what was typed. The strongest comes first: argument, variable, default.
    pub(crate) fn resolve(args: GlobalArgs, host: HostArgs, env: Box<dyn Environment>) -> Outcome<Self> {
        // `verbose` is for the log, which is set up before anything can fail.
        let GlobalArgs { config, trust_project, json, output, color, verbose: _, quiet } = args;
        let format = if json { Format::Json } else { output.unwrap_or(Format::Text) };
        let printer = Printer::new(format, color, quiet, &*env);
        let trusted =
            trust_project || env::given(&*env, env::TRUST_PROJECT).is_some_and(|value| value == "1");
        let files = match config.or_else(|| env::given(&*env, env::CONFIG).map(PathBuf::from)) {
            Some(path) => Choice::One(path),
            None => Choice::Layers { user: env::user_config(&*env), project: project_file()? },
        };
        let trust = if trusted { Trust::Project } else { Trust::NoProject };
        Ok(Self { printer, files, trust, host, env, closings: Closings::default() })
    }

    /// Where it is kept what other commands are to know.
    pub(crate) fn folders(&self) -> Folders {
        Folders { records: env::records(&*self.env), negotiations: env::negotiations(&*self.env) }
    }
}

/// The name of a project's file.
pub(crate) const PROJECT_FILE: &str = "bowline.toml";

/// The nearest project file, here or above.
fn project_file() -> Outcome<Option<PathBuf>> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::usage(format!("cannot tell the current folder: {error}")))?;
    Ok(here.ancestors().map(|folder| folder.join(PROJECT_FILE)).find(|path| path.is_file()))
}
