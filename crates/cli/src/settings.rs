//! Owns what the arguments mean together with the environment and the configuration files.

pub(crate) mod files;
pub(crate) mod many;
mod suggest;
pub(crate) mod target;
pub(crate) mod words;

use std::path::PathBuf;
use std::sync::OnceLock;

use bowline::auth::store::private::refuse_shared_folder;
use bowline::config::Environment;
use serde_json::json;

pub(crate) use suggest::closest;

use crate::args::{Format, GlobalArgs, HostArgs};
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::print::Printer;
use crate::session::{Closings, Folders, Refreshes};
use crate::trust::Records;
use files::{Choice, Layers};

/// What every verb needs.
pub(crate) struct Settings {
    /// Where output goes.
    pub(crate) printer: Printer,
    /// Which configuration files count.
    pub(crate) files: Choice,
    /// Whether the project's file is trusted without a record of that.
    pub(crate) trust: Trust,
    /// What a server gets that asks for something.
    pub(crate) host: HostArgs,
    /// Variables, and files that the configuration names.
    pub(crate) env: Box<dyn Environment>,
    /// Connections that commands are done with.
    pub(crate) closings: Closings,
    /// The logins that this process uses.
    pub(crate) refreshes: Refreshes,
    /// The configuration files, once they were read.
    layers: OnceLock<Layers>,
    /// The state folder, once it was looked at.
    state: OnceLock<Option<PathBuf>>,
}

/// Who vouches for the project's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The person, for this run.
    ThisRun,
    /// The person, earlier, if there is a record of it (`bowline trust`).
    Recorded,
}

impl Settings {
    /// Resolves what was typed. The strongest comes first: argument, variable, default.
    pub(crate) fn resolve(args: GlobalArgs, host: HostArgs, env: Box<dyn Environment>) -> Outcome<Self> {
        // `verbose` is for the log, which is set up before anything can fail.
        let GlobalArgs { config, trust_project, json, output, color, verbose: _, quiet } = args;
        let format = if json { Format::Json } else { output.unwrap_or(Format::Text) };
        let printer = Printer::new(format, color, quiet, &*env);
        let files = match config.or_else(|| env::given(&*env, env::CONFIG).map(PathBuf::from)) {
            Some(path) => Choice::One(path),
            None => Choice::Layers { user: env::user_config(&*env), project: project_file()? },
        };
        let trust = if trust_project { Trust::ThisRun } else { Trust::Recorded };
        let (closings, refreshes) = (Closings::default(), Refreshes::default());
        let (layers, state) = (OnceLock::new(), OnceLock::new());
        Ok(Self { printer, files, trust, host, env, closings, refreshes, layers, state })
    }

    /// The configuration files. They are read once: what was trusted is what is used, whatever becomes of the file.
    pub(crate) fn layers(&self) -> Outcome<&Layers> {
        if let Some(layers) = self.layers.get() {
            return Ok(layers);
        }
        let records = Records::of(self);
        let layers = self.files.read(&*self.env, self.trust, records.as_ref())?;
        if self.trust == Trust::ThisRun
            && let Some(project) = layers.project()
        {
            let text = format!("{} is trusted for this run (--trust-project)", project.path.display());
            self.printer.event(&text, "trusted", &json!({ "path": project.path }));
        }
        if layers.untrusted().is_some() && env::given(&*self.env, env::TRUST_PROJECT).is_some() {
            let variable = env::TRUST_PROJECT;
            self.printer.note(&format!("{variable} has no effect any more: use `bowline trust`"));
        }
        Ok(self.layers.get_or_init(|| layers))
    }

    /// Where this user's bowlines keep what they remember, unless there is no such folder or somebody else can write
    /// to it, which is told once. It need not exist.
    pub(crate) fn state(&self) -> Option<PathBuf> {
        let looked_at = self.state.get_or_init(|| self.private_folder(env::state(&*self.env)));
        looked_at.clone()
    }

    /// Where it is kept what other commands are to know.
    pub(crate) fn folders(&self) -> Folders {
        let records = self.state().and_then(|_| env::records(&*self.env));
        Folders { records, negotiations: self.private_folder(env::negotiations(&*self.env)) }
    }

    fn private_folder(&self, folder: Option<PathBuf>) -> Option<PathBuf> {
        let refused = |folder: &PathBuf| refuse_shared_folder(folder).err();
        match folder.as_ref().and_then(refused) {
            None => folder,
            Some(error) => {
                self.printer.note(&format!("nothing is remembered: {error}"));
                None
            }
        }
    }
}

/// The name of a project's file.
pub(crate) const PROJECT_FILE: &str = "bowline.toml";

/// The nearest project file, here or above.
pub(crate) fn project_file() -> Outcome<Option<PathBuf>> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::usage(format!("cannot tell the current folder: {error}")))?;
    Ok(here.ancestors().map(|folder| folder.join(PROJECT_FILE)).find(|path| path.is_file()))
}
