//! A web page on the loopback, for the servers that fetch pages.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A web server with one page, which robots may fetch. Dropping it stops it.
pub(crate) struct Page {
    port: u16,
    serving: JoinHandle<()>,
}

impl Page {
    pub(crate) async fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Browsers open connections that they do not use, and close some early.
                tokio::spawn(async move { drop(respond(stream).await) });
            }
        });
        Self { port, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/knots", self.port)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Answers one request.
async fn respond(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if stream.read_line(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let (status, kind, body) = match request.split(' ').nth(1) {
        Some("/knots") => ("200 OK", "text/html", HTML),
        Some("/robots.txt") => ("200 OK", "text/plain", "User-agent: *\nAllow: /\n"),
        _ => ("404 Not Found", "text/plain", ""),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).await?;
    stream.shutdown().await
}

const HTML: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Knots</title></head>\
    <body><h1>Bowline</h1><p>It does not slip.</p></body></html>\n";
