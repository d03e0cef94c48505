//! One HTTP exchange as a scripted host makes it: on its own connection, with a body that is read line
//! by line.

use std::collections::VecDeque;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connect::host::TEST_TIMEOUT;

/// A request.
pub(crate) struct Request<'a> {
    pub(crate) verb: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<(&'a str, String)>,
    pub(crate) body: String,
}

/// A response that is being read.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

/// The part of a body that was not read yet.
struct Body {
    stream: BufReader<TcpStream>,
    is_chunked: bool,
    /// Bytes that are left of a body with a known length.
    left: usize,
    /// What was received of the current line.
    line: Vec<u8>,
    /// What was received and not looked at.
    received: VecDeque<u8>,
}

impl Request<'_> {
    /// Sends the request, and reads the head of the response.
    pub(crate) async fn send(self, address: &str) -> Response {
        let Self { verb, path, headers, body } = self;
        let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(head.as_bytes()).await.expect("it reads");
            Response::read(BufReader::new(stream)).await
        };
        timeout(TEST_TIMEOUT, exchange).await.expect("a response in time")
    }
}

impl Response {
    async fn read(mut stream: BufReader<TcpStream>) -> Self {
        let status = read_line(&mut stream).await;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        let mut headers = Vec::new();
        loop {
            match read_line(&mut stream).await {
                line if line.is_empty() => break,
                line => {
                    let (name, value) = line.split_once(": ").expect("a header");
                    headers.push((name.to_ascii_lowercase(), value.to_owned()));
                }
            }
        }
        let mut response = Self {
            status,
            headers,
            body: Body { stream, is_chunked: false, left: 0, line: Vec::new(), received: VecDeque::new() },
        };
        response.body.is_chunked = response.header("transfer-encoding") == Some("chunked");
        response.body.left = response.header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        response
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_event_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The next message: of an event, or the whole body.
    pub(crate) async fn message(&mut self) -> Value {
        let is_event_stream = self.is_event_stream();
        loop {
            let line = timeout(TEST_TIMEOUT, self.body.next_line()).await.expect("a message in time");
            let line = line.expect("the response has a message");
            let text = if is_event_stream { line.strip_prefix("data: ") } else { Some(&*line) };
            if let Some(message) = text.and_then(|text| serde_json::from_str(text).ok()) {
                return message;
            }
        }
    }

    /// The data of the next event.
    pub(crate) async fn data(&mut self) -> String {
        loop {
            let line = timeout(TEST_TIMEOUT, self.body.next_line()).await.expect("an event in time");
            if let Some(data) = line.expect("the stream goes on").strip_prefix("data: ") {
                return data.to_owned();
            }
        }
    }
}

impl Body {
    /// The next line, or `None` at the end.
    async fn next_line(&mut self) -> Option<String> {
        loop {
            while let Some(byte) = self.received.pop_front() {
                if byte == b'\n' {
                    let line = std::mem::take(&mut self.line);
                    return Some(String::from_utf8(line).expect("UTF-8").trim_end().to_owned());
                }
                self.line.push(byte);
            }
            if !self.receive().await {
                let line = std::mem::take(&mut self.line);
                return (!line.is_empty()).then(|| String::from_utf8(line).expect("UTF-8"));
            }
        }
    }

    /// Receives more of the body. `false` at its end.
    async fn receive(&mut self) -> bool {
        if self.left == 0 && self.is_chunked {
            let mut size = read_line(&mut self.stream).await;
            // The end of the chunk before.
            if size.is_empty() {
                size = read_line(&mut self.stream).await;
            }
            self.left = usize::from_str_radix(&size, 16).unwrap_or(0);
        }
        if self.left == 0 {
            return false;
        }
        let mut buffer = vec![0; self.left.min(64 * 1024)];
        let count = self.stream.read(&mut buffer).await.unwrap_or(0);
        self.left -= count;
        self.received.extend(&buffer[..count]);
        count > 0
    }
}

/// A line of a head, without its end. Empty also at the end of the connection.
async fn read_line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    let _ = stream.read_line(&mut line).await;
    line.trim_end().to_owned()
}
