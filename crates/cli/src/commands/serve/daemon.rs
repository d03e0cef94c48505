//! [`Daemon`]: a `bowline serve --socket` in the background, which the hosts of one configuration
//! share. This file decides where its files are, and when and how it is started.
//!
//! | file | content |
//! |---|---|
//! | `run/KEY.sock` | the socket |
//! | `run/KEY.pid` | the id of the process, the key of the configuration that it has, and its version |
//! | `run/KEY.lock` | locked by whoever starts it; its time is that of the last start |
//! | `run/KEY.log` | what it wrote to stderr, at most 1 MiB |

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bowline_store::private::{create_folder, refuse_shared_folder};
use bowline_transport::process::MARK_VARIABLE;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout_at};

use super::daemon_key::DaemonKey;
use crate::args::ServeArgs;
use crate::env;
use crate::private_socket::MAX_SOCKET_PATH;
use crate::settings::Settings;

/// The daemon of one configuration, which may or may not run.
#[derive(Debug)]
pub(super) struct Daemon {
    files: DaemonFiles,
    program: PathBuf,
    args: Vec<OsString>,
}

/// Whether somebody listens on the socket of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartOutcome {
    /// Somebody did already.
    WasRunning,
    /// It was started.
    Started,
    /// Another process starts it, or it takes long to start.
    Pending,
}

/// Why a daemon did not start.
#[derive(Clone, Debug)]
pub(super) struct StartFailure {
    /// The reason, with the end of the log on further lines.
    pub(super) reason: String,
}

impl Daemon {
    /// Finds the daemon of this configuration. Fails with a reason if there can be none.
    pub(super) fn locate(args: &ServeArgs, settings: &Settings, key: DaemonKey) -> Result<Self, String> {
        let files = DaemonFiles::new(settings, key)?;
        let program = std::env::current_exe().map_err(|error| format!("its program is unknown: {error}"))?;
        let mut words: Vec<OsString> = vec!["serve".into(), "--socket".into(), files.socket().into()];
        words.extend(["--detached".into(), key.to_string().into()]);
        words.extend(
            ["--exit-when-idle", DAEMON_IDLE_TIME, "--session-idle", SESSION_IDLE_TIME].map(Into::into),
        );
        if args.prefix {
            words.push("--prefix".into());
        }
        words.extend(settings.command_line.global_options().iter().map(Into::into));
        if !args.servers.is_empty() {
            words.push("--".into());
            words.extend(args.servers.iter().map(Into::into));
        }
        Ok(Self { files, program, args: words })
    }

    /// The path of its socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.files.socket()
    }

    /// The path of its log.
    pub(super) fn log(&self) -> PathBuf {
        self.files.log()
    }

    /// Whether the daemon that runs has this configuration. It has another one if a host that came
    /// before the configuration changed had to start it again.
    pub(super) fn has_same_configuration(&self) -> bool {
        let text = std::fs::read_to_string(self.files.pid()).unwrap_or_default();
        text.split_whitespace().nth(1).is_none_or(|key| key == self.files.key.to_string())
    }

    /// Starts the daemon unless it runs, and waits at most [`START_TIMEOUT`] until it listens. Of all
    /// processes that do this at once, one starts it.
    pub(super) async fn ensure_running(&self) -> Result<StartOutcome, StartFailure> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.is_listening().await {
                return Ok(StartOutcome::WasRunning);
            }
            if let Some(lock) = self.files.try_lock().map_err(|error| self.failure(&error))? {
                // Whoever had the lock may have started it.
                if self.is_listening().await {
                    return Ok(StartOutcome::WasRunning);
                }
                return self.start(lock, deadline).await;
            }
            if Instant::now() >= deadline {
                return Ok(StartOutcome::Pending);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn start(&self, lock: StartLock, deadline: Instant) -> Result<StartOutcome, StartFailure> {
        let (log, log_start) = self.files.open_log().map_err(|error| self.failure(&error))?;
        let mut exit = self.spawn(log).map_err(|error| self.failure(&error))?;
        lock.record_start();
        let exited = async {
            // It writes nothing, so this ends when the process does.
            let _ = exit.read_to_end(&mut Vec::new()).await;
        };
        let listening = async {
            while !self.is_listening().await {
                sleep(POLL_INTERVAL).await;
            }
        };
        let has_exited = async {
            tokio::select! {
                () = exited => true,
                () = listening => false,
            }
        };
        match timeout_at(deadline, has_exited).await {
            Ok(false) => Ok(StartOutcome::Started),
            // A daemon that somebody else started took the socket.
            Ok(true) if self.is_listening().await => Ok(StartOutcome::WasRunning),
            Ok(true) => Err(StartFailure::from_log(&self.files.log(), log_start)),
            Err(_) => Ok(StartOutcome::Pending),
        }
    }

    /// Starts the process, and returns a pipe that ends when the process does.
    ///
    /// A shell starts it in the background and ends at once, so that it is no child of this process:
    /// some hosts end every descendant of what they have started.
    fn spawn(&self, log: File) -> io::Result<ChildStdout> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", r#""$@" &"#, "sh"])
            .arg(&self.program)
            .args(&self.args)
            // It serves other hosts as well, each of which says which gateways it has passed, and it does not end
            // with the gateway that may have started this process.
            .env_remove(env::VIA)
            .env_remove(MARK_VARIABLE)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        // The runtime reaps the shell.
        Ok(shell.stdout.take().expect("it is piped"))
    }

    /// Whether somebody listens on the socket.
    pub(super) async fn is_listening(&self) -> bool {
        match UnixStream::connect(self.files.socket()).await {
            Ok(_) => true,
            // Too many connections wait to be accepted.
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    fn failure(&self, error: &io::Error) -> StartFailure {
        StartFailure { reason: format!("{}: {error}", self.files.folder.display()) }
    }
}

impl StartFailure {
    /// Reads what was written to the log since `start`.
    fn from_log(path: &Path, start: u64) -> Self {
        let read = || {
            let mut file = File::open(path)?;
            let end = file.seek(SeekFrom::End(0))?;
            file.seek(SeekFrom::Start(start.min(end).max(end.saturating_sub(MAX_LOG_TAIL))))?;
            let mut tail = Vec::new();
            file.take(MAX_LOG_TAIL).read_to_end(&mut tail)?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&tail).trim().to_owned())
        };
        let tail = read().unwrap_or_default();
        let separator = if tail.is_empty() { "" } else { "\n" };
        Self { reason: format!("it ended at once{separator}{tail}") }
    }
}

/// The files of a daemon.
#[derive(Debug)]
pub(super) struct DaemonFiles {
    folder: PathBuf,
    key: DaemonKey,
}

/// Held while a daemon is started.
struct StartLock(File);

/// A daemon whose socket was found.
#[derive(Debug)]
pub(in crate::commands) struct FoundDaemon {
    pub(in crate::commands) socket: PathBuf,
    /// The id of its process, if its file has one.
    pub(in crate::commands) pid: Option<u32>,
    /// Its version, if its file has one.
    pub(in crate::commands) version: Option<String>,
}

/// Returns the sockets of daemons of this user, whether or not somebody listens there.
pub(in crate::commands) fn find_daemons(settings: &Settings) -> Vec<FoundDaemon> {
    let usable = |folder: &PathBuf| refuse_shared_folder(folder).is_ok();
    let folders = settings.socket_folders().into_iter().filter(usable);
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let sockets = files.map(|file| file.path());
    let sockets = sockets.filter(|path| path.extension().is_some_and(|extension| extension == "sock"));
    let mut found: Vec<FoundDaemon> = sockets
        .map(|socket| {
            let text = std::fs::read_to_string(socket.with_extension("pid")).unwrap_or_default();
            let mut words = text.split_whitespace();
            let pid = words.next().and_then(|pid| pid.parse().ok());
            // The key of the configuration is between them.
            let version = words.nth(1).map(ToOwned::to_owned);
            FoundDaemon { socket, pid, version }
        })
        .collect();
    found.sort_by(|a, b| a.socket.cmp(&b.socket));
    found
}

impl DaemonFiles {
    fn new(settings: &Settings, key: DaemonKey) -> Result<Self, String> {
        let mut reason = "there is no folder for its socket".to_owned();
        for folder in settings.socket_folders() {
            let files = Self { folder, key };
            match files.prepare_folder() {
                Ok(()) => return Ok(files),
                Err(error) => reason = format!("{}: {error}", files.folder.display()),
            }
        }
        Err(reason)
    }

    fn prepare_folder(&self) -> io::Result<()> {
        if self.socket().as_os_str().len() > MAX_SOCKET_PATH {
            return Err(io::Error::other("the path of the socket would be too long"));
        }
        create_folder(&self.folder)?;
        refuse_shared_folder(&self.folder)
    }

    fn socket(&self) -> PathBuf {
        self.with_extension("sock")
    }

    fn pid(&self) -> PathBuf {
        self.with_extension("pid")
    }

    fn log(&self) -> PathBuf {
        self.with_extension("log")
    }

    fn with_extension(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.key))
    }

    /// Takes the right to start the daemon. `None` if another process has it, or if the last start
    /// was just now.
    fn try_lock(&self) -> io::Result<Option<StartLock>> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.with_extension("lock"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let about = file.metadata()?;
        let since = about.modified().ok().and_then(|at| at.elapsed().ok());
        // It is empty before the first start.
        let is_too_soon = about.len() > 0 && since.is_some_and(|since| since < MIN_START_INTERVAL);
        Ok((!is_too_soon).then_some(StartLock(file)))
    }

    /// Opens the log, and returns it with its length. Files of daemons that were last started long
    /// ago are removed.
    fn open_log(&self) -> io::Result<(File, u64)> {
        self.remove_old_files();
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(self.log())?;
        let length = log.metadata()?.len();
        Ok((log, length))
    }

    fn remove_old_files(&self) {
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for file in files {
            let path = file.path();
            let is_ours = path.extension().is_some_and(|extension| extension == "log" || extension == "lock");
            let age =
                file.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
            if is_ours && age.is_some_and(|age| age > MAX_FILE_AGE) && !path.with_extension("sock").exists() {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl StartLock {
    /// Records that the daemon is started now. If that fails, the next start may come too soon.
    fn record_start(&self) {
        let mut file = &self.0;
        let _ = file.rewind().and_then(|()| file.write_all(b"started\n"));
    }
}

/// How long a start may take.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is checked whether the daemon listens.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A daemon that ends again and again is started this often at most, by all hosts together.
const MIN_START_INTERVAL: Duration = Duration::from_secs(1);
/// How many bytes of a log are shown.
const MAX_LOG_TAIL: u64 = 4096;
const MAX_FILE_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// After how long without a host a daemon ends.
const DAEMON_IDLE_TIME: &str = "5m";
/// After how long a session of a host that was killed ends. One that is alive has an open stream.
const SESSION_IDLE_TIME: &str = "1m";
