//! The socket that a service manager has opened, on which hosts wait while bowline is restarted.

use std::io;

use bowline::config::Environment;
use listenfd::ListenFd;
use tokio::net::{TcpListener, UnixListener};

/// A socket that hosts can already connect to.
pub(super) enum GivenSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Takes the socket that this process was started with, as `LISTEN_FDS` says. `None` if there is none.
pub(super) fn take(environment: &dyn Environment) -> io::Result<Option<GivenSocket>> {
    // Variables for another process, such as the shell that started this one, are not for us.
    if environment.var("LISTEN_PID") != Some(std::process::id().to_string()) {
        return Ok(None);
    }
    // As many numbers would be collected below.
    let count: u64 = environment.var("LISTEN_FDS").and_then(|count| count.parse().ok()).unwrap_or(0);
    if count > 1 {
        return Err(io::Error::other(format!("there are {count} of them, and one can be served")));
    }
    let mut given = ListenFd::from_env();
    if let Ok(Some(socket)) = given.take_unix_listener(0) {
        socket.set_nonblocking(true)?;
        return UnixListener::from_std(socket).map(|socket| Some(GivenSocket::Unix(socket)));
    }
    let Some(socket) = given.take_tcp_listener(0)? else { return Ok(None) };
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket).map(|socket| Some(GivenSocket::Tcp(socket)))
}

#[cfg(test)]
mod tests {
    use bowline::config::FixedEnvironment;

    use super::*;

    /// Sets the variables with which a service manager passes sockets.
    fn environment(pid: u32, count: &str) -> FixedEnvironment {
        let pid = pid.to_string();
        FixedEnvironment::default().with_var("LISTEN_PID", pid.as_str()).with_var("LISTEN_FDS", count)
    }

    #[test]
    fn sockets_of_another_process_and_several_are_not_taken() {
        let own = std::process::id();
        assert!(take(&FixedEnvironment::default()).unwrap().is_none());
        assert!(take(&environment(own + 1, "1")).unwrap().is_none());
        for count in ["2", "2147483647"] {
            let error = take(&environment(own, count)).err().unwrap();
            assert_eq!(error.to_string(), format!("there are {count} of them, and one can be served"));
        }
    }
}
