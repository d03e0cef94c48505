//! A server that writes the HTTP/2 frames it is told, over TLS.

use std::net::SocketAddr;

use bowline_testkit::with;
use bowline_transport::http::HttpLink;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::raw::RawServer;
use super::tls::{Authority, ClientAuth};
use super::{config, link_to};

pub(crate) struct FrameServer {
    raw: RawServer,
    authority: Authority,
    acceptor: TlsAcceptor,
}

/// The server's end of a connection.
pub(crate) struct FramePeer {
    socket: TlsStream<TcpStream>,
}

/// Codes of RST_STREAM and GOAWAY.
pub(crate) mod code {
    pub(crate) const NO_ERROR: u32 = 0;
    pub(crate) const INTERNAL_ERROR: u32 = 2;
    pub(crate) const REFUSED_STREAM: u32 = 7;
    pub(crate) const CANCEL: u32 = 8;
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

impl FrameServer {
    pub(crate) async fn bind() -> Self {
        let authority = Authority::new();
        let acceptor = authority.server(&[b"h2"], ClientAuth::Any);
        Self { raw: RawServer::bind().await, authority, acceptor }
    }

    pub(crate) fn link(&self) -> HttpLink {
        let url = format!("https://{}/mcp", self.address());
        link_to(&with!(config(&url), tls: self.authority.trust()))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.raw.address
    }

    pub(crate) async fn accept(&self) -> FramePeer {
        self.accept_with(&[]).await
    }

    /// Accepts a connection with these settings: pairs of id and value.
    pub(crate) async fn accept_with(&self, settings: &[(u16, u32)]) -> FramePeer {
        let socket = self.acceptor.accept(self.raw.accept().await.socket).await.unwrap();
        let mut peer = FramePeer { socket };
        let mut preface = [0; 24];
        peer.socket.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        peer.frame(SETTINGS, 0, 0, &settings).await;
        peer
    }
}

impl FramePeer {
    /// Reads until a request is complete, and returns its stream.
    pub(crate) async fn request(&mut self) -> u32 {
        self.next_request().await.expect("the client left")
    }

    /// Reads until a request is complete; `None` if the client leaves first.
    pub(crate) async fn next_request(&mut self) -> Option<u32> {
        loop {
            let mut head = [0; 9];
            self.socket.read_exact(&mut head).await.ok()?;
            let [a, b, c, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.socket.read_exact(&mut payload).await.ok()?;
            match kind {
                HEADERS | DATA if flags & END_STREAM != 0 => return Some(u32::from_be_bytes(stream)),
                SETTINGS if flags & ACK == 0 => self.frame(SETTINGS, ACK, 0, &[]).await,
                PING if flags & ACK == 0 => self.frame(PING, ACK, 0, &payload).await,
                _ => {}
            }
        }
    }

    /// Answers with status 200 and no body.
    pub(crate) async fn answer(&mut self, stream: u32) {
        // 0x88 is `:status: 200` in the static table of HPACK.
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]).await;
    }

    pub(crate) async fn reset(&mut self, stream: u32, code: u32) {
        self.frame(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    pub(crate) async fn go_away(&mut self, last: u32, code: u32) {
        self.frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat()).await;
    }

    async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.socket.write_all(&frame).await.unwrap();
        self.socket.flush().await.unwrap();
    }
}
