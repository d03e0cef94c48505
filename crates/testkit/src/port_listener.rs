//! [`PortListener`]: a loopback port on which a server stops listening and comes back. No other
//! process gets the port in between.

use std::future::Future;
use std::io;
use std::mem;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::server_thread::Spawner;

/// A loopback port that is listened on or only reserved.
pub(crate) struct PortListener {
    addr: SocketAddr,
    spawner: Spawner,
    /// Held while the state changes, so that starting and stopping exclude each other.
    state: Mutex<PortState>,
}

enum PortState {
    Listening {
        accept: JoinHandle<Option<()>>,
        /// A second socket on the port, so that the port has an owner at every moment of a stop;
        /// otherwise an outgoing connection of any process could get it. It must be bound before
        /// the listener listens, because binding fails afterwards. Only Linux allows two sockets on
        /// one port.
        kept: Option<ReservedPort>,
    },
    Reserved(ReservedPort),
    /// Listening or reserving failed. The next start binds the port again.
    Unbound,
}

impl PortListener {
    /// Reserves a free loopback port.
    pub(crate) fn reserve(spawner: Spawner) -> io::Result<Self> {
        let reserved = ReservedPort::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let addr = reserved.0.local_addr()?;
        Ok(Self { addr, spawner, state: Mutex::new(PortState::Reserved(reserved)) })
    }

    /// Returns the address, which stays the same.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Starts to listen and hands every connection to `accept`. Returns false if it listened
    /// already. After an error it can be called again. Must run on the server thread.
    pub(crate) async fn start(&self, accept: impl FnMut(TcpStream) + Send + 'static) -> io::Result<bool> {
        let mut state = self.state.lock().await;
        let reserved = match mem::replace(&mut *state, PortState::Unbound) {
            PortState::Reserved(reserved) => reserved,
            PortState::Unbound => ReservedPort::bind(self.addr)?,
            listening @ PortState::Listening { .. } => {
                *state = listening;
                return Ok(false);
            }
        };
        let kept = match cfg!(target_os = "linux").then(|| ReservedPort::bind(self.addr)).transpose() {
            Ok(kept) => kept,
            Err(error) => {
                *state = PortState::Reserved(reserved);
                return Err(error);
            }
        };
        match reserved.listen() {
            Ok(listener) => {
                let accept = self.spawner.spawn(accept_connections(listener, accept));
                *state = PortState::Listening { accept, kept };
                Ok(true)
            }
            Err(error) => {
                *state = kept.map_or(PortState::Unbound, PortState::Reserved);
                Err(error)
            }
        }
    }

    /// Stops to listen, runs `end_connections`, and reserves the port. Does nothing if it does not
    /// listen. Must run on the server thread.
    pub(crate) async fn stop(&self, end_connections: impl Future<Output = ()>) -> io::Result<()> {
        let mut state = self.state.lock().await;
        match mem::replace(&mut *state, PortState::Unbound) {
            PortState::Listening { accept, kept } => {
                accept.abort();
                let _ = accept.await;
                end_connections.await;
                *state = PortState::Reserved(kept.map_or_else(|| ReservedPort::bind(self.addr), Ok)?);
            }
            other => *state = other,
        }
        Ok(())
    }
}

async fn accept_connections(listener: TcpListener, mut accept: impl FnMut(TcpStream)) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            accept(stream);
        }
    }
}

/// A bound socket that does not listen: connections are refused, and no other socket gets the port.
struct ReservedPort(TcpSocket);

impl ReservedPort {
    /// Binds a socket to this address; port 0 chooses a free one.
    fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Connections of the previous run may linger in TIME_WAIT.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        Ok(Self(socket))
    }

    fn listen(self) -> io::Result<TcpListener> {
        self.0.listen(1024)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;
    use crate::server_thread::ServerThread;

    /// Another socket that listens on the reserved port makes the start fail.
    #[tokio::test]
    async fn a_failed_start_can_be_repeated() {
        let thread = ServerThread::start("testkit-port");
        let port = Arc::new(PortListener::reserve(thread.spawner.clone()).unwrap());
        let (accepted, mut accepts) = mpsc::unbounded_channel();
        let start = || {
            let (port, accepted) = (Arc::clone(&port), accepted.clone());
            thread.run(async move { port.start(move |_| _ = accepted.send(())).await })
        };
        let intruder = ReservedPort::bind(port.addr()).unwrap().listen().unwrap();
        assert_eq!(start().await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(intruder);
        assert!(start().await.unwrap());
        assert!(!start().await.unwrap(), "it listens already");
        TcpStream::connect(port.addr()).await.unwrap();
        assert_eq!(accepts.recv().await, Some(()));
        let stopping = Arc::clone(&port);
        thread.run(async move { stopping.stop(std::future::ready(())).await }).await.unwrap();
        assert!(TcpStream::connect(port.addr()).await.is_err());
        assert!(start().await.unwrap(), "on the same port");
        TcpStream::connect(port.addr()).await.unwrap();
        assert_eq!(accepts.recv().await, Some(()));
    }
}
