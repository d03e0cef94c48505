//! Combines the arguments with the environment and the configuration files.

pub(crate) mod positional;
pub(crate) mod server_selection;
pub(crate) mod target;
pub(crate) mod url_server;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use bowline::auth::Auth;
use bowline::config::Environment;
use bowline::negotiation::{FolderCache, NegotiationCache};
use bowline_proto::via::Via;
use bowline_store::private::refuse_shared_folder;
use serde_json::json;

use crate::args::{ContentArgs, Format, GlobalArgs, HandlerArgs};
use crate::closing::PendingCloses;
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::kept_sessions::KeptSessions;
use crate::print::Printer;
use crate::print::content::Viewer;
use crate::process_pool::PoolUse;
use crate::refresh_tracker::RefreshTracker;
use crate::suggested_command::CommandLine;
use bowline_settings::{ConfigFiles, Layers, ProjectTrust, TrustRecords};

/// The settings that every verb needs.
pub(crate) struct Settings {
    /// What suggested commands repeat of the command line.
    pub(crate) command_line: CommandLine,
    /// Prints the output.
    pub(crate) printer: Printer,
    /// Which configuration files are read.
    pub(crate) files: ConfigFiles,
    /// Whether the project's file is trusted for this run or only by its record.
    pub(crate) project_trust: ProjectTrust,
    /// Arguments for requests of the server.
    pub(crate) handler_args: HandlerArgs,
    /// Variables, and files that the configuration names.
    pub(crate) env: Box<dyn Environment>,
    /// Connections that are being closed.
    pub(crate) pending_closes: PendingCloses,
    /// The logins that this process uses.
    pub(crate) refreshes: RefreshTracker,
    /// Connections that stay open between the commands of a prompt.
    pub(crate) kept_sessions: Option<Rc<KeptSessions>>,
    /// Whether a process that `bowline serve` keeps may be used, and whether one is.
    pub(crate) pool_use: PoolUse,
    /// The configuration files, once read.
    layers: OnceLock<Layers>,
    /// The state folder, once checked.
    state: OnceLock<Option<PathBuf>>,
}

impl Settings {
    /// Resolves the settings. An argument overrides a variable, which overrides the default.
    pub(crate) fn resolve(
        args: GlobalArgs,
        host: HandlerArgs,
        command_line: CommandLine,
        env: Box<dyn Environment>,
    ) -> Outcome<Self> {
        // `verbose` is for the log, which is set up before anything can fail.
        let GlobalArgs { config, trust_project, json, output, color, verbose: _, quiet } = args;
        let format = if json { Format::Json } else { output.unwrap_or(Format::Text) };
        let printer = Printer::new(format, color, quiet, &*env);
        let files = ConfigFiles::find(config, &*env)?;
        let trust = if trust_project { ProjectTrust::ThisRun } else { ProjectTrust::Recorded };
        let (closings, refreshes) = (PendingCloses::default(), RefreshTracker::default());
        let (layers, state) = (OnceLock::new(), OnceLock::new());
        Ok(Self {
            command_line,
            printer,
            files,
            project_trust: trust,
            handler_args: host,
            env,
            pending_closes: closings,
            refreshes,
            kept_sessions: None,
            pool_use: PoolUse::default(),
            layers,
            state,
        })
    }

    /// Returns settings that read the configuration files again, as at the start: with the same options
    /// and the same trust. They print no notes.
    pub(crate) fn read_again(&self) -> Outcome<Self> {
        let env = Box::new(env::ProcessEnvironment::read());
        let files = match &self.files {
            ConfigFiles::Single(path) => ConfigFiles::Single(path.clone()),
            ConfigFiles::Layered { .. } => ConfigFiles::find(None, &*env)?,
        };
        Ok(Self {
            command_line: self.command_line.clone(),
            printer: self.printer.without_notes(),
            files,
            project_trust: self.project_trust,
            handler_args: self.handler_args.clone(),
            env,
            pending_closes: PendingCloses::default(),
            refreshes: RefreshTracker::default(),
            kept_sessions: None,
            pool_use: PoolUse::default(),
            layers: OnceLock::new(),
            state: self.state.clone(),
        })
    }

    /// Returns settings for one command of a prompt, which reads the configuration files again.
    pub(crate) fn for_prompt_command(
        &self,
        printer: Printer,
        handler_args: HandlerArgs,
        kept: &Rc<KeptSessions>,
    ) -> Outcome<Self> {
        let (refreshes, kept_sessions) = (self.refreshes.clone(), Some(Rc::clone(kept)));
        Ok(Self { printer, handler_args, refreshes, kept_sessions, ..self.read_again()? })
    }

    /// Returns the configuration files. They are read once, so that what is used is what was
    /// trusted, even if a file changes.
    pub(crate) fn layers(&self) -> Outcome<&Layers> {
        if let Some(layers) = self.layers.get() {
            return Ok(layers);
        }
        let records = self.trust_records();
        let layers = self.files.read(&*self.env, self.project_trust, records.as_ref())?;
        if self.project_trust == ProjectTrust::ThisRun {
            for project in layers.projects() {
                let text = format!("{} is trusted for this run (--trust-project)", project.path.display());
                self.printer.write_event(&text, "trusted", &json!({ "path": project.path }));
            }
        }
        if !layers.untrusted().is_empty() && env::non_empty_var(&*self.env, env::TRUST_PROJECT).is_some() {
            let variable = env::TRUST_PROJECT;
            self.printer.note(&format!("{variable} has no effect any more: use `bowline trust`"));
        }
        Ok(self.layers.get_or_init(|| layers))
    }

    /// Returns the state folder, which need not exist. If there is none, or somebody else can write
    /// to it, the result is `None`, with a note once.
    pub(crate) fn state(&self) -> Option<PathBuf> {
        let looked_at = self.state.get_or_init(|| self.private_folder(env::state_folder(&*self.env)));
        looked_at.clone()
    }

    /// Returns the folders for the sockets of `bowline serve`, the preferred one first. They need not exist.
    #[cfg(unix)]
    pub(crate) fn socket_folders(&self) -> Vec<PathBuf> {
        // Not first below XDG_RUNTIME_DIR: hosts often do not pass that variable on, and a terminal,
        // which has it, would look elsewhere.
        let state = self.state().map(|state| state.join("run"));
        let runtime = env::non_empty_var(&*self.env, env::XDG_RUNTIME_DIR).map(PathBuf::from);
        let runtime = runtime.filter(|folder| folder.is_absolute()).map(|folder| folder.join("bowline"));
        state.into_iter().chain(runtime).collect()
    }

    /// Returns the records of trusted projects, if there is a folder for them.
    pub(crate) fn trust_records(&self) -> Option<TrustRecords> {
        self.state().map(|state| TrustRecords::open(&state, env::home_folder(&*self.env)))
    }

    /// Has the refreshes of the logins that `auth` uses tracked to the end of the process.
    pub(crate) fn track_refreshes(&self, auth: Auth) -> Auth {
        self.refreshes.watch(auth, &self.printer, &self.command_line)
    }

    /// Returns a viewer for content that saves files under names that begin with `stem`.
    pub(crate) fn viewer(&self, args: ContentArgs, stem: &str) -> Outcome<Viewer<'_>> {
        let hint = "name a folder that you may write to with --save; it is made if there is none";
        Viewer::new(&self.printer, &*self.env, args, stem).map_err(|why| Failure::usage_hint(why, hint))
    }

    /// Returns the gateways that led to this process.
    pub(crate) fn passed_gateways(&self) -> Via {
        env::non_empty_var(&*self.env, env::VIA).map(|text| Via::parse(&text)).unwrap_or_default()
    }

    /// Returns the folders with data that is shared between commands.
    pub(crate) fn folders(&self) -> StateFolders {
        let records = self.state().and_then(|_| env::process_records_folder(&*self.env));
        let negotiations = self.private_folder(env::negotiations_folder(&*self.env));
        // Both are in the same folder, which was looked at.
        let catalog = negotiations.as_ref().and_then(|_| env::catalog_folder(&*self.env));
        StateFolders { process_records: records, negotiations, catalog }
    }

    fn private_folder(&self, folder: Option<PathBuf>) -> Option<PathBuf> {
        let refused = |folder: &PathBuf| refuse_shared_folder(folder).err();
        match folder.as_ref().and_then(refused) {
            None => folder,
            Some(error) => {
                self.printer.note(&format!("nothing is stored between commands: {error}"));
                None
            }
        }
    }
}

/// Folders with data that is shared between commands.
#[derive(Clone, Debug)]
pub(crate) struct StateFolders {
    /// Records of server processes.
    pub(crate) process_records: Option<PathBuf>,
    /// Cache of negotiated protocol revisions.
    pub(crate) negotiations: Option<PathBuf>,
    /// Lists of servers, as last fetched.
    pub(crate) catalog: Option<PathBuf>,
}

impl StateFolders {
    /// Returns the negotiation cache, if there is a folder for it.
    pub(crate) fn negotiation_cache(&self) -> Option<Arc<dyn NegotiationCache>> {
        self.negotiations.as_ref().map(|folder| Arc::new(FolderCache::new(folder)) as _)
    }
}
