//! A person at a terminal: sends keys, and reads the rendered screen. Every wait is for text on the
//! screen, with a timeout.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use bowline_testkit::SECRET_PREFIX;
use parking_lot::{Condvar, Mutex};
use rustix::fs::OFlags;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::context::{Capture, Command};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const ENTER: &str = "\r";
pub(crate) const ESCAPE: &str = "\x1b";
pub(crate) const UP: &str = "\x1b[A";
pub(crate) const DOWN: &str = "\x1b[B";
pub(crate) const HOME: &str = "\x1b[H";
pub(crate) const CLEAR: &str = "\x15";
pub(crate) const CTRL_C: &str = "\x03";

/// A terminal: `master` is its keyboard and screen, `slave` is for the program.
pub(crate) struct Pty {
    pub(crate) master: File,
    pub(crate) slave: File,
}

impl Pty {
    pub(crate) fn open(rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        // A flag for `openpt` would be shorter, but macOS has none.
        fcntl_setfd(&master, FdFlags::CLOEXEC).expect("a descriptor");
        grantpt(&master).expect("our terminal");
        unlockpt(&master).expect("our terminal");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        let slave = options.open(OsStr::from_bytes(name.to_bytes())).expect("its other side");
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("its size");
        Self { master: File::from(master), slave }
    }

    /// Describes all modes of the terminal.
    fn modes(slave: &File) -> String {
        format!("{:?}", tcgetattr(slave).expect("its modes"))
    }
}

/// `bowline` at its own terminal, with stdout in a pipe: prompts must not appear there.
pub(crate) struct Person {
    child: KillOnDrop,
    master: File,
    slave: File,
    before: String,
    seen: Arc<ScreenState>,
    terminal: Arc<Capture>,
    reader: JoinHandle<()>,
    stdout: Receiver<String>,
}

/// How the process ended.
pub(crate) struct TerminalExit {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) screen: String,
}

/// A child that is killed if the test fails first.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct ScreenState {
    screen: Mutex<vt100::Parser>,
    changed: Condvar,
}

impl Person {
    pub(crate) fn sits_at(command: Command) -> Self {
        Self::sits_at_columns(100, command)
    }

    /// Sits at a terminal of this many columns.
    pub(crate) fn sits_at_columns(columns: u16, mut command: Command) -> Self {
        let pty = Pty::open(40, columns);
        let before = Pty::modes(&pty.slave);
        let slave = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        if !command.has_env("TERM") {
            command.env("TERM", "xterm");
        }
        command.stdin(slave()).stderr(slave()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("bowline starts");
        let terminal = command.capture("terminal");
        // Our copies of the terminal must be closed, or it would never reach its end.
        drop(command);
        let seen = Arc::new(ScreenState {
            screen: Mutex::new(vt100::Parser::new(40, columns, 1000)),
            changed: Condvar::new(),
        });
        let master = pty.master;
        let (mut output, look) = (master.try_clone().expect("a descriptor"), Arc::clone(&seen));
        let shown = Arc::clone(&terminal);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Linux ends a terminal with an error, other systems with an empty read.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                shown.add(&buffer[..count]);
                look.screen.lock().process(&buffer[..count]);
                look.changed.notify_all();
            }
            shown.end();
        });
        let mut out = child.stdout.take().expect("a pipe");
        let (printed, stdout) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).expect("text");
            let _ = printed.send(text);
        });
        Self { child: KillOnDrop(child), master, slave: pty.slave, before, seen, terminal, reader, stdout }
    }

    /// Waits until the screen shows the text, and returns the screen.
    pub(crate) fn sees(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?} is shown"), |screen| screen.contains(text))
    }

    /// Waits until the screen shows the second text after the first one, and returns the screen.
    pub(crate) fn sees_after(&self, first: &str, second: &str) -> String {
        let is_shown = |screen: &str| screen.split_once(first).is_some_and(|(_, rest)| rest.contains(second));
        self.wait_until(&format!("{second:?} is shown after {first:?}"), is_shown)
    }

    /// Waits until the screen no longer shows the text.
    pub(crate) fn sees_no(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?} is gone"), |screen| !screen.contains(text))
    }

    fn wait_until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let mut parser = self.seen.screen.lock();
        let not_yet = |parser: &mut vt100::Parser| !is(&parser.screen().contents());
        self.seen.changed.wait_while_for(&mut parser, not_yet, TEST_TIMEOUT);
        let screen = parser.screen().contents();
        assert!(is(&screen), "waited in vain until {what}:\n{screen}");
        screen
    }

    /// Returns the current screen.
    pub(crate) fn screen(&self) -> String {
        self.seen.screen.lock().screen().contents()
    }

    pub(crate) fn presses(&mut self, keys: &str) -> &mut Self {
        self.master.write_all(keys.as_bytes()).expect("the terminal is there");
        self
    }

    /// Pastes an authorization code or a URL with one, which the screen may show from then on.
    pub(crate) fn pastes_code(&mut self, text: &str) -> &mut Self {
        self.terminal.allow(&format!("{SECRET_PREFIX}code-"));
        self.presses(text)
    }

    /// Types keys and waits for text on the screen.
    pub(crate) fn answers(&mut self, keys: &str, then: &str) -> String {
        self.presses(keys);
        self.sees(then)
    }

    /// Returns whether the terminal is in raw mode, as it is during a prompt.
    pub(crate) fn is_asked(&self) -> bool {
        !tcgetattr(&self.slave).expect("its modes").local_modes.contains(LocalModes::ICANON)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child.0)
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_left(&mut self) -> bool {
        self.child.0.try_wait().expect("a status").is_some()
    }

    /// Waits for the process to end. The terminal must be restored.
    pub(crate) fn leaves(mut self) -> TerminalExit {
        // No other process has its stdout, so the end of that is the end of the process.
        let stdout = self.stdout.recv_timeout(TEST_TIMEOUT);
        let stdout = stdout.unwrap_or_else(|_| panic!("it does not end:\n{}", self.screen()));
        let code = self.child.0.wait().expect("it ends").code().expect("no signal ended it");
        assert_eq!(Pty::modes(&self.slave), self.before, "the terminal's modes");
        drop(self.slave);
        self.reader.join().expect("it was read");
        let parser = self.seen.screen.lock();
        assert!(!parser.screen().hide_cursor(), "the cursor is hidden");
        assert!(!parser.screen().bracketed_paste(), "pasted text is still marked");
        TerminalExit { code, stdout, screen: parser.screen().contents() }
    }
}
