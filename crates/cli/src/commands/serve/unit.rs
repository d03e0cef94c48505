//! Prints what a service manager needs to run `bowline serve`, and tells it how far it is.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use bowline::config::Environment;

use crate::args::{ListenArgs, UnitKind};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::write_stdout_bytes;
use crate::settings::Settings;

/// What a service manager runs.
struct Service<'a> {
    program: &'a Path,
    args: &'a [String],
    /// Where servers that are programs are searched for: the service manager knows of fewer places
    /// than the shell of its user.
    path: Option<&'a str>,
    /// What relative paths in the arguments begin at.
    folder: Option<&'a Path>,
    /// How long open calls get to end, and then some.
    stop_timeout: Duration,
    /// The address or path that hosts connect to.
    socket: &'a str,
}

/// Prints how a service manager runs the command that was given.
pub(super) fn print_command(kind: UnitKind, listen: &ListenArgs, settings: &Settings) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|error| Failure::usage(format!("the path of this program is not known: {error}")))?;
    let path = settings.env.var("PATH");
    let given: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into()).collect();
    let args = without_print_unit(&given);
    if let Some(arg) = args.iter().find(|arg| arg.chars().any(char::is_control)) {
        return Err(Failure::usage(format!("a service manager cannot be given the argument {arg:?}")));
    }
    let folder = std::env::current_dir().ok();
    let socket = listen_address(listen, folder.as_deref());
    if has_unwritable_path(&program, folder.as_deref(), &socket) {
        return Err(Failure::usage("a service manager cannot be given a path with `$` or `\\` in it"));
    }
    let service = Service {
        program: &program,
        args: &args,
        path: path.as_deref(),
        folder: folder.as_deref(),
        stop_timeout: listen.drain.saturating_add(STOP_TIME),
        socket: &socket,
    };
    write_stdout_bytes(print(kind, &service).as_bytes())?;
    Ok(Exit::Ok)
}

/// What hosts connect to, in the words of systemd.
fn listen_address(listen: &ListenArgs, folder: Option<&Path>) -> String {
    #[cfg(unix)]
    if let Some(path) = &listen.socket {
        return folder.unwrap_or(Path::new("/")).join(path).display().to_string();
    }
    let _ = folder;
    listen.address.to_string()
}

/// How long everything takes that is done after open calls have ended: processes of servers are given
/// some seconds to end.
const STOP_TIME: Duration = Duration::from_secs(20);

/// The arguments without `--print-unit` and its value.
fn without_print_unit(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--print-unit" {
            args.next();
        } else if !arg.starts_with("--print-unit=") {
            kept.push(arg.clone());
        }
    }
    kept
}

/// Whether there is a path that systemd has no way to write.
fn has_unwritable_path(program: &Path, folder: Option<&Path>, socket: &str) -> bool {
    let program = program.to_string_lossy();
    let folder = folder.map(Path::to_string_lossy).unwrap_or_default();
    // A character in place of what is no text.
    let is_odd = |path: &str| path.contains(['\\', '\u{fffd}']);
    program.contains('$') || [&*program, &*folder, socket].into_iter().any(is_odd)
}

/// The file for a service manager.
fn print(kind: UnitKind, service: &Service<'_>) -> String {
    match kind {
        UnitKind::Systemd => systemd(service),
        UnitKind::SystemdSocket => systemd_socket(service),
        UnitKind::Launchd => launchd(service),
    }
}

fn systemd(&Service { program, args, path, folder, stop_timeout, .. }: &Service<'_>) -> String {
    let stop_timeout = stop_timeout.as_secs();
    // Only `%` has a meaning here, also within quotes, which are part of the path.
    let folder = folder.map(|folder| format!("WorkingDirectory={}\n", folder.display()).replace('%', "%%"));
    let folder = folder.unwrap_or_default();
    let path = path.map(|path| format!("Environment={}\n", systemd_quote(&format!("PATH={path}"))));
    let path = path.unwrap_or_default().replace("$$", "$");
    let words = std::iter::once(program.to_string_lossy()).chain(args.iter().map(Into::into));
    let command: Vec<_> = words.map(|word| systemd_quote(&word)).collect();
    format!(
        "# Save this as ~/.config/systemd/user/bowline.service, then run:\n\
         #   systemctl --user enable --now bowline\n\
         [Unit]\n\
         Description=MCP servers behind one endpoint\n\
         Documentation=man:bowline(1)\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         {path}\
         {folder}\
         Restart=on-failure\n\
         # Open calls get --drain to end, and processes of servers some seconds more.\n\
         TimeoutStopSec={stop_timeout}\n\
         # The processes of servers are ended in order by bowline.\n\
         KillMode=mixed\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        command.join(" ")
    )
}

fn systemd_socket(&Service { socket, .. }: &Service<'_>) -> String {
    let socket = socket.replace('%', "%%");
    format!(
        "# Save this as ~/.config/systemd/user/bowline.socket beside bowline.service (--print-unit systemd), then run:\n\
         #   systemctl --user enable --now bowline.socket\n\
         # Hosts can connect while bowline is restarted: they wait.\n\
         [Unit]\n\
         Description=The socket of MCP servers behind one endpoint\n\
         \n\
         [Socket]\n\
         ListenStream={socket}\n\
         SocketMode=0600\n\
         \n\
         [Install]\n\
         WantedBy=sockets.target\n"
    )
}

/// A word of a command line in a unit file, where `%` and `$` have a meaning also within quotes.
fn systemd_quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:=@,+[]".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for char in word.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '%' | '$' => quoted.extend([char, char]),
            '\n' => quoted.push_str("\\n"),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

fn launchd(&Service { program, args, path, folder, stop_timeout, .. }: &Service<'_>) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut words = String::new();
    for word in std::iter::once(program.to_string_lossy()).chain(args.iter().map(Into::into)) {
        // Writing to a string cannot fail.
        let _ = writeln!(words, "    <string>{}</string>", escape(&word));
    }
    let path = path.map_or_else(String::new, |path| {
        format!(
            "  <key>EnvironmentVariables</key>\n  <dict>\n    <key>PATH</key>\n    <string>{}</string>\n  </dict>\n",
            escape(path)
        )
    });
    let folder = folder.map_or_else(String::new, |folder| {
        format!("  <key>WorkingDirectory</key>\n  <string>{}</string>\n", escape(&folder.to_string_lossy()))
    });
    let stop_timeout = stop_timeout.as_secs();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- Save this as ~/Library/LaunchAgents/bowline.serve.plist, then run:\n\
         \u{20}    launchctl bootstrap gui/$UID ~/Library/LaunchAgents/bowline.serve.plist -->\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \u{20} <key>Label</key>\n\
         \u{20} <string>bowline.serve</string>\n\
         \u{20} <key>ProgramArguments</key>\n\
         \u{20} <array>\n\
         {words}\
         \u{20} </array>\n\
         {path}\
         {folder}\
         \u{20} <key>ExitTimeOut</key>\n\
         \u{20} <integer>{stop_timeout}</integer>\n\
         \u{20} <key>RunAtLoad</key>\n\
         \u{20} <true/>\n\
         \u{20} <key>KeepAlive</key>\n\
         \u{20} <dict>\n\
         \u{20}   <key>SuccessfulExit</key>\n\
         \u{20}   <false/>\n\
         \u{20} </dict>\n\
         </dict>\n\
         </plist>\n"
    )
}

/// What a service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceState {
    /// Hosts are accepted.
    Ready,
    /// No more hosts are accepted.
    Stopping,
}

/// Tells systemd, if it wants to know. It need not be reached.
pub(super) fn notify(environment: &dyn Environment, state: ServiceState) {
    let Some(socket) = env::non_empty_var(environment, env::NOTIFY_SOCKET) else { return };
    let message = match state {
        ServiceState::Ready => "READY=1",
        ServiceState::Stopping => "STOPPING=1",
    };
    if let Err(error) = send(&socket, message) {
        tracing::debug!(%error, "the service manager was not told");
    }
}

#[cfg(unix)]
fn send(socket: &str, message: &str) -> std::io::Result<()> {
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let address = match socket.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            SocketAddr::from_abstract_name(name)?
        }
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(not(unix))]
fn send(_socket: &str, _message: &str) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_unit_runs_the_same_command() {
        let words = args(&["serve", "50%", "$HOME", "a\"b"]);
        let service = Service {
            program: Path::new("/opt/my apps/bowline"),
            args: &words,
            path: Some("/a b:/c"),
            folder: Some(Path::new("/my 5%")),
            stop_timeout: Duration::from_secs(45),
            socket: "/run/5%/b.sock",
        };
        let unit = print(UnitKind::Systemd, &service);
        let expected = "\nExecStart=\"/opt/my apps/bowline\" serve \"50%%\" \"$$HOME\" \"a\\\"b\"\n\
                        ExecReload=/bin/kill -HUP $MAINPID\n\
                        Environment=\"PATH=/a b:/c\"\nWorkingDirectory=/my 5%%\nRestart=";
        assert!(unit.contains(expected) && unit.contains("\nTimeoutStopSec=45\n"), "{unit}");
        let socket = print(UnitKind::SystemdSocket, &service);
        assert!(socket.contains("\n[Socket]\nListenStream=/run/5%%/b.sock\nSocketMode=0600\n"), "{socket}");
        let words = args(&["serve", "a<b&c"]);
        let service = Service { args: &words, path: None, folder: Some(Path::new("/a&b")), ..service };
        let plist = print(UnitKind::Launchd, &service);
        let expected = "    <string>serve</string>\n    <string>a&lt;b&amp;c</string>\n  </array>\n  \
                        <key>WorkingDirectory</key>\n  <string>/a&amp;b</string>\n  <key>ExitTimeOut</key>\n  \
                        <integer>45</integer>\n  <key>RunAtLoad";
        assert!(plist.contains(expected), "{plist}");
    }

    #[test]
    fn paths_that_cannot_be_written_are_refused() {
        let is_refused = |program: &str, folder: &str, socket: &str| {
            has_unwritable_path(Path::new(program), Some(Path::new(folder)), socket)
        };
        assert!(!is_refused("/opt/b %'\"/bowline", "/my $HOME", "/run/b$.sock"));
        assert!(!has_unwritable_path(Path::new("/bowline"), None, "127.0.0.1:7355"));
        for (program, folder, socket) in [
            ("/opt/$b/bowline", "/", "s"),
            ("/opt/b\\/bowline", "/", "s"),
            ("/bowline", "/a\\b", "s"),
            ("/bowline", "/", "/run/a\\b.sock"),
            ("/bowline", "/\u{fffd}", "s"),
        ] {
            assert!(is_refused(program, folder, socket), "{program} {folder} {socket}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn systemd_is_told_on_a_path_and_by_an_abstract_name() {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::{SocketAddr, UnixDatagram};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("bowline-test-{}", std::process::id());
        let sockets = [
            (path.to_str().unwrap().to_owned(), UnixDatagram::bind(&path).unwrap()),
            (
                format!("@{name}"),
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            ),
        ];
        for (address, socket) in sockets {
            for (state, expected) in
                [(ServiceState::Ready, "READY=1"), (ServiceState::Stopping, "STOPPING=1")]
            {
                let environment = bowline::config::FixedEnvironment::default()
                    .with_var(env::NOTIFY_SOCKET, address.as_str());
                notify(&environment, state);
                let mut buffer = [0; 32];
                let read = socket.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..read], expected.as_bytes());
            }
        }
    }
}
