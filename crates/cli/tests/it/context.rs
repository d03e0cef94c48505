//! The context that a test runs in: an empty home, an environment without our variables, and
//! filters for values that differ from run to run.

#[path = "context/command.rs"]
mod command;
#[path = "context/watch.rs"]
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;

use bowline_testkit::StdioCommand;
use tempfile::TempDir;

pub(crate) use command::Command;
pub(crate) use watch::Capture;
use watch::Watch;

/// Converts the id of a process that was started.
#[cfg(unix)]
pub(crate) fn to_pid(id: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(id.cast_signed()).expect("a pid")
}

/// A home and a project folder, removed on drop. Dropping it fails the test if a command printed a
/// credential or left one in a file.
pub(crate) struct Context {
    root: TempDir,
    watch: Arc<Watch>,
}

impl Drop for Context {
    fn drop(&mut self) {
        let found = self.watch.findings(self.root.path());
        // A test that has already failed has its own message.
        if !std::thread::panicking() {
            assert!(found.is_empty(), "credentials where none may be:\n{}", found.join("\n"));
        }
    }
}

impl Context {
    pub(crate) fn new() -> Self {
        let context = Self { root: tempfile::tempdir().expect("a temporary folder"), watch: Arc::default() };
        for folder in ["home/.config/bowline", "project/below"] {
            std::fs::create_dir_all(context.path(folder)).expect("a folder");
        }
        // Independent of the umask of the user who runs the tests: files writable by others have
        // their own tests.
        for folder in ["home", "project", "project/below"] {
            context.set_mode(folder, 0o755);
        }
        context
    }

    /// Sets the mode of a path below the temporary folder, on Unix.
    pub(crate) fn set_mode(&self, below: &str, mode: u32) {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(self.path(below), mode).expect("it is there");
        }
        let _ = (below, mode);
    }

    /// Returns a path below the temporary folder.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// Writes a file as the test's own: its credentials do not count as leaked.
    pub(crate) fn write(&self, below: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        std::fs::write(&path, bytes.as_ref()).expect("a file");
        self.watch.wrote(path.clone(), bytes.as_ref());
        path
    }

    /// Writes the user's configuration file.
    pub(crate) fn user_config(&self, text: &str) -> &Self {
        self.write("home/.config/bowline/config.toml", text);
        self
    }

    /// Writes the project's configuration file.
    pub(crate) fn project_config(&self, text: &str) -> &Self {
        self.write("project/bowline.toml", text);
        self.set_mode("project/bowline.toml", 0o644);
        self
    }

    /// Trusts the project's configuration file in its current form.
    pub(crate) fn trust_project(&self) -> &Self {
        let shown = self.run(self.bowline(["trust", "--yes"]));
        assert!(shown.starts_with("exit: 0"), "{shown}");
        self
    }

    /// Makes a `bowline` command with these arguments, in a folder below the project's.
    pub(crate) fn bowline<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_bowline"));
        command
            .args(args)
            .current_dir(self.path("project/below"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("APPDATA", self.path("home/.config"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        #[cfg(windows)]
        command.env("SystemRoot", std::env::var_os("SystemRoot").unwrap_or_default());
        command
    }

    /// Makes a shell that runs a script in which `"$0"` is `bowline`, with the variables of
    /// [`Context::bowline`].
    #[cfg(unix)]
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut shell = self.command("sh");
        shell
            .args(["-c", script, env!("CARGO_BIN_EXE_bowline")])
            .current_dir(self.path("project/below"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        shell
    }

    /// Makes a command for another program that starts `bowline`, such as a shell. Its output is
    /// searched as well.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        Command::new(program, Arc::clone(&self.watch))
    }

    /// Makes `bowline WORDS… -- COMMAND` for a scripted server, with its variables.
    pub(crate) fn bowline_with(&self, words: &[&str], server: &StdioCommand) -> Command {
        let mut args: Vec<String> = words.iter().map(ToString::to_string).collect();
        for (key, value) in &server.env {
            args.extend(["-e".to_owned(), format!("{key}={value}")]);
        }
        args.push("--".to_owned());
        args.push(server.program.display().to_string());
        args.extend(server.args.iter().cloned());
        self.bowline(args)
    }

    /// Runs a command and formats its exit code and output, with filters applied.
    pub(crate) fn run(&self, mut command: Command) -> String {
        let output = command.output().expect("bowline starts");
        self.shown(&output)
    }

    /// Runs a command with input on stdin, and formats its exit code and output.
    pub(crate) fn run_with_input(&self, mut command: Command, input: &str) -> String {
        use std::io::Write as _;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bowline starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("bowline reads");
        drop(stdin);
        self.shown(&child.wait_with_output().expect("bowline ends"))
    }

    pub(crate) fn shown(&self, output: &Output) -> String {
        let stdout = self.apply_filters(&String::from_utf8_lossy(&output.stdout));
        let stderr = self.apply_filters(&String::from_utf8_lossy(&output.stderr));
        let exit = output.status.code().map_or("none".to_owned(), |code| code.to_string());
        format!("exit: {exit}\n--- stdout\n{stdout}--- stderr\n{stderr}---")
    }

    /// Replaces the temporary folder and the PATH in a text.
    pub(crate) fn hide_paths(&self, text: &str) -> String {
        self.apply_filters(text)
    }

    fn apply_filters(&self, text: &str) -> String {
        let real = std::fs::canonicalize(self.root.path()).expect("the folder is there");
        let mut text = text.to_owned();
        for root in [real.as_path(), self.root.path()] {
            text = text.replace(&root.display().to_string(), "[TMP]");
        }
        if let Some(path) = std::env::var_os("PATH").and_then(|path| path.into_string().ok()) {
            text = text.replace(&path, "[PATH]");
        }
        // Help output pads empty lines, and editors strip trailing blanks.
        text.split('\n').map(|line| line.trim_end_matches(' ')).collect::<Vec<_>>().join("\n")
    }
}

/// Filters for text that differs only in numbers.
pub(crate) fn filters() -> Vec<(&'static str, &'static str)> {
    vec![
        (r" \(os error \d+\)", ""),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]"),
        (r"\d+(\.\d+)? (ms|s)\b", "[TIME]"),
        (concat!("bowline ", env!("CARGO_PKG_VERSION")), "bowline [VERSION]"),
        (concat!("knots ", env!("CARGO_PKG_VERSION")), "knots [VERSION]"),
    ]
}

/// Compares with the text in the test.
macro_rules! snapshot {
    ($shown:expr, @$expected:literal) => {
        insta::with_settings!({ filters => crate::context::filters() }, {
            insta::assert_snapshot!($shown, @$expected);
        });
    };
}
pub(crate) use snapshot;

/// Formats a path as a TOML literal string.
pub(crate) fn toml_path(path: &Path) -> String {
    format!("'{}'", path.display())
}
