//! Names the variables that the command uses, besides those that say where its folders are.

pub(crate) use bowline_settings::{
    ProcessEnvironment, catalog_folder, describe_io_error, home_folder, negotiations_folder, non_empty_var,
    process_records_folder, read_small_file, state_folder, user_config_path,
};

/// Has no effect any more, and a note says so: it trusted every project alike.
pub(crate) const TRUST_PROJECT: &str = "BOWLINE_TRUST_PROJECT";
/// What to log, in the syntax of `tracing`: `debug`, or `bowline=trace,info`. Overrides `-v`.
pub(crate) const LOG: &str = "BOWLINE_LOG";
/// Any value makes commands start their servers themselves, as `--no-daemon` does.
pub(crate) const NO_DAEMON: &str = "BOWLINE_NO_DAEMON";
/// URL of the registry in which `bowline add` looks names up.
pub(crate) const REGISTRY: &str = "BOWLINE_REGISTRY";
/// Program that opens a URL, instead of the system's; several are separated by colons.
pub(crate) const BROWSER: &str = "BROWSER";
/// Editors for `bowline edit`; the first that is set counts.
pub(crate) const VISUAL: &str = "VISUAL";
pub(crate) const EDITOR: &str = "EDITOR";
/// Passphrase that exported logins are encrypted with.
pub(crate) const PASSPHRASE: &str = "BOWLINE_PASSPHRASE";
/// Set over SSH, where a browser would open on a machine that nobody sits at.
pub(crate) const SSH_VARS: [&str; 2] = ["SSH_CONNECTION", "SSH_TTY"];
/// Set where windows can be shown, on systems with no other way to tell; the last means WSL.
pub(crate) const DISPLAY_VARS: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
/// The trace that a command belongs to, in the W3C format.
pub(crate) const TRACEPARENT: &str = "TRACEPARENT";
/// Vendor data for [`TRACEPARENT`].
pub(crate) const TRACESTATE: &str = "TRACESTATE";
/// Folder of sockets, used where the path of the state folder is too long for one.
#[cfg(unix)]
pub(crate) const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// The gateways that led to this process, set for servers that a gateway starts.
pub(crate) const VIA: &str = bowline_proto::via::VIA_VARIABLE;
/// The socket on which systemd wants to be told how far a service is.
pub(crate) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Any value disables colors.
pub(crate) const NO_COLOR: &str = "NO_COLOR";
/// `dumb` disables colors and the progress bar.
pub(crate) const TERM: &str = "TERM";

/// Describes the variables in `--help`.
pub(crate) const HELP: &str = "\
Environment:
  BOWLINE_CONFIG         configuration file, as --config
  BOWLINE_LOG            what to log, such as `debug` or `bowline=trace`
  BOWLINE_NO_DAEMON      start servers for each command, as --no-daemon, whatever the value is
  BOWLINE_PASSPHRASE     the passphrase of `bowline auth export` and `import`
  BOWLINE_REGISTRY       where `bowline add` looks names up, as --registry
  BROWSER                the program that opens web pages, for logins and at a server's request
  XDG_CACHE_HOME         the folder for caches (default ~/.cache); `bowline` in it, which has the
                         protocol and the lists of servers, may be deleted at any time
  TRACEPARENT            the trace that calls belong to, with TRACESTATE
  NO_COLOR               no color";
