//! The sockets on which hosts connect: TCP, and on Unix also Unix sockets.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl ListenSocket {
    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Events are small and must not wait for one another.
                let _ = stream.set_nodelay(true);
                Ok(Connection::Tcp(stream))
            }
            #[cfg(unix)]
            Self::Unix(listener) => {
                let stream = listener.accept().await?.0;
                if !is_of_this_user(&stream) {
                    return Err(io::Error::from(io::ErrorKind::PermissionDenied));
                }
                Ok(Connection::Unix(stream))
            }
        }
    }

    /// The address, unless it is a Unix socket.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }

    /// Whether a web page can address it by a name.
    pub(crate) fn is_addressed_by_name(&self) -> bool {
        match self {
            Self::Tcp(_) => true,
            #[cfg(unix)]
            Self::Unix(_) => false,
        }
    }
}

/// Whether a connection is of the user that this process runs as, or of the administrator. The file of
/// a socket may be open to others, or there may be none.
#[cfg(unix)]
fn is_of_this_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| may_connect(peer.uid(), own))
}

/// Whether a process of the user `peer` may connect to one of the user `own`.
#[cfg(unix)]
fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == ADMINISTRATOR
}

#[cfg(unix)]
const ADMINISTRATOR: u32 = 0;

macro_rules! delegate {
    ($connection:expr, $stream:ident => $call:expr) => {
        match $connection.get_mut() {
            Connection::Tcp($stream) => $call,
            #[cfg(unix)]
            Connection::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_and_the_administrator_may_connect() {
        for (peer, own, expected) in
            [(1000, 1000, true), (0, 1000, true), (1001, 1000, false), (1000, 0, false), (0, 0, true)]
        {
            assert_eq!(may_connect(peer, own), expected, "{peer} to {own}");
        }
    }

    #[tokio::test]
    async fn a_connection_of_this_user_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = ListenSocket::Unix(UnixListener::bind(&path).unwrap());
        let (accepted, connected) = tokio::join!(listener.accept(), UnixStream::connect(&path));
        assert!(accepted.is_ok() && connected.is_ok());
    }
}
