//! A server on its own thread that closes each connection after one response, without announcing
//! it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use socket2::SockRef;

/// Serves until the test ends.
pub(crate) struct ClosingServer {
    pub(crate) address: SocketAddr,
    close: Sender<()>,
    closed: Receiver<()>,
    /// Gets the body of each request.
    pub(crate) requests: Receiver<String>,
}

/// How a connection ends after its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CloseKind {
    Close,
    Reset,
    /// It stays open, and something unrequested is written.
    Speak,
}

/// When a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseTrigger {
    AfterReply,
    OnCommand,
}

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

impl ClosingServer {
    /// Hands each connection to `wrap` first, which may speak TLS on it.
    pub(crate) fn start<S: Read + Write>(
        ending: CloseKind,
        moment: CloseTrigger,
        mut wrap: impl FnMut(TcpStream) -> S + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ((close, told_to_close), (tell_closed, closed)) = (channel(), channel());
        let (tell_request, requests) = channel();
        thread::spawn(move || {
            let mut open = Vec::new();
            for socket in listener.incoming() {
                let socket = socket.unwrap();
                let handle = socket.try_clone().unwrap();
                let mut stream = wrap(socket);
                serve(&mut stream, &tell_request);
                if moment == CloseTrigger::OnCommand && told_to_close.recv().is_err() {
                    return;
                }
                match ending {
                    CloseKind::Close => {}
                    CloseKind::Reset => {
                        SockRef::from(&handle).set_linger(Some(std::time::Duration::ZERO)).unwrap();
                    }
                    CloseKind::Speak => {
                        stream.write_all(&REPLY.repeat(2)).unwrap();
                        stream.flush().unwrap();
                        open.push((stream, handle));
                        let _ = tell_closed.send(());
                        continue;
                    }
                }
                drop((stream, handle));
                // The test may be over.
                let _ = tell_closed.send(());
            }
        });
        Self { address, close, closed, requests }
    }

    /// Ends the connection, and blocks until that is done: the runtime of the test cannot notice
    /// anything meanwhile.
    pub(crate) fn end_connection(&self) {
        self.close.send(()).unwrap();
        self.closed.recv().unwrap();
    }
}

/// Reads one request and answers it.
fn serve(stream: &mut (impl Read + Write), tell: &Sender<String>) {
    let mut read = Vec::new();
    let body = loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).unwrap();
        assert_ne!(length, 0, "the client left");
        read.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            break body.to_owned();
        }
    };
    let _ = tell.send(body);
    stream.write_all(REPLY).unwrap();
    stream.flush().unwrap();
}
