//! A loopback port that stays reserved while nobody listens on it.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// A bound socket that does not listen: connections are refused, and no other socket gets the port.
pub(crate) struct ReservedPort(TcpSocket);

/// Binds a socket to this address without listening; port 0 chooses a free one.
pub(crate) fn reserve_port(addr: SocketAddr) -> io::Result<ReservedPort> {
    let socket = TcpSocket::new_v4()?;
    // Connections of the previous run may linger in TIME_WAIT.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(ReservedPort(socket))
}

impl ReservedPort {
    pub(crate) fn addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Starts to listen on the port. Must be called within a runtime.
    pub(crate) fn listen(self) -> io::Result<TcpListener> {
        self.0.listen(1024)
    }
}
