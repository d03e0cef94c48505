//! A legacy server that parses nothing but the method: it keeps each body as it came, and returns a
//! result as the test wrote it.

use std::sync::Arc;

use bowline::Server;
use bowline::config::Protocol;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct RawServer {
    pub(crate) bodies: Arc<Mutex<Vec<String>>>,
    port: u16,
    task: tokio::task::AbortHandle,
}

impl RawServer {
    /// `answer` is what follows the id in each response, such as `"result":{}`.
    pub(crate) async fn start(answer: &'static str) -> Self {
        Self::start_with_messages(&[], answer).await
    }

    /// A server that writes these messages before each response, in one write with it. `ID` in them
    /// stands for the id of the request.
    pub(crate) async fn start_with_messages(before: &'static [&'static str], answer: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&bodies);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move { drop(serve_connection(stream, before, answer, kept).await) });
            }
        });
        Self { bodies, port, task: task.abort_handle() }
    }

    pub(crate) fn server(&self) -> Server {
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        Server::http("raw", url).build().expect("a loopback URL").with_protocol(Protocol::Legacy)
    }

    /// The body of the request with this method.
    pub(crate) fn body(&self, method: &str) -> String {
        let bodies = self.bodies.lock();
        let named = format!("\"method\":\"{method}\"");
        bodies.iter().find(|body| body.contains(&named)).cloned().unwrap_or_else(|| panic!("no {method}"))
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve_connection(
    stream: TcpStream,
    before: &[&str],
    answer: &str,
    kept: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut first) = (0, String::new());
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await?;
            if header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = String::from_utf8(body).expect("text");
        let reply = if !first.starts_with("POST") {
            "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else if let Some(id) = id_of(&body) {
            let (before, answer) = if body.contains("\"method\":\"initialize\"") {
                (&[][..], INITIALIZE_RESULT)
            } else {
                (before, answer)
            };
            let json = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}");
            let (kind, reply) = if before.is_empty() {
                ("application/json", json)
            } else {
                let said = before.iter().map(|said| said.replace("ID", id)).chain([json]);
                let parts = said.flat_map(|message| ["data: ".to_owned(), message, "\n\n".to_owned()]);
                ("text/event-stream", parts.collect())
            };
            let length = reply.len();
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{reply}")
        } else {
            "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned()
        };
        kept.lock().push(body);
        stream.get_mut().write_all(reply.as_bytes()).await?;
    }
}

/// Our client writes the id first, and as a number.
fn id_of(body: &str) -> Option<&str> {
    let rest = body.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":")?;
    rest.split(',').next()
}

const INITIALIZE_RESULT: &str = r#""result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"x-vendor":1.0}},"serverInfo":{"name":"raw","version":"1","x-vendor":[1e400]},"instructions":"Knots."}"#;
