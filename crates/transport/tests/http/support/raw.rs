//! A server that writes what the test says, also what no server should.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct RawServer {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl RawServer {
    pub(crate) async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (socket, _) = self.listener.accept().await.unwrap();
        // Everything is sent at once, or nobody could wait for it to have arrived.
        socket.set_nodelay(true).unwrap();
        Peer { socket, read: Vec::new() }
    }

    /// Accepts one connection, reads one request, writes `answer` and closes.
    pub(crate) async fn answer_once(&self, answer: &[u8]) {
        let mut peer = self.accept().await;
        peer.request().await;
        peer.write(answer).await;
    }
}

/// The server's end of a connection.
pub(crate) struct Peer {
    pub(crate) socket: TcpStream,
    read: Vec<u8>,
}

impl Peer {
    /// Reads one request with its body, and returns its head.
    pub(crate) async fn request(&mut self) -> String {
        loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8(self.read[..end].to_vec()).unwrap();
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.trim().parse::<usize>().unwrap())
                });
                let whole = end + 4 + length.unwrap_or(0);
                if self.read.len() >= whole {
                    self.read.drain(..whole);
                    return head;
                }
            }
            assert_ne!(self.socket.read_buf(&mut self.read).await.unwrap(), 0, "the client left");
        }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn closed(&mut self) {
        let mut rest = [0; 1024];
        while !matches!(self.socket.read(&mut rest).await, Ok(0) | Err(_)) {}
    }
}

/// Waits until the runtime knows of everything that arrived on a socket before this call: sends a
/// byte through loopback, which cannot be noticed before earlier data.
pub(crate) async fn settle() {
    let raw = RawServer::bind().await;
    let (client, mut peer) = tokio::join!(TcpStream::connect(raw.address), raw.accept());
    client.unwrap().write_all(b"x").await.unwrap();
    assert_eq!(peer.socket.read_u8().await.unwrap(), b'x');
}
