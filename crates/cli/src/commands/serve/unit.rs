//! Prints what a service manager needs to run `bowline serve`, and tells it how far it is.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use bowline::config::Environment;

use crate::args::UnitKind;
use crate::env;

/// What a service manager runs.
pub(super) struct Service<'a> {
    pub(super) program: &'a Path,
    pub(super) args: &'a [String],
    /// Where servers that are programs are searched for: the service manager knows of fewer places
    /// than the shell of its user.
    pub(super) path: Option<&'a str>,
    /// What relative paths in the arguments begin at.
    pub(super) folder: Option<&'a Path>,
    /// How long open calls get to end, and then some.
    pub(super) stop_timeout: Duration,
    /// The address or path that hosts connect to.
    pub(super) socket: &'a str,
}

/// The file for a service manager.
pub(super) fn print(kind: UnitKind, service: &Service<'_>) -> String {
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
