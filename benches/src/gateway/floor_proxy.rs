//! The floor: a bare proxy that parses nothing. Each connection of a host has a kept connection to
//! the server, and requests and responses pass as they are.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use http::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// Serves in front of the server at `upstream` until stdin closes; prints its own address.
pub(crate) fn serve(upstream: SocketAddr) -> anyhow::Result<()> {
    crate::server::exit_with_stdin();
    // As many threads as the command has.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // On a worker and not on the blocking thread: otherwise every wake-up would cross threads.
    runtime.block_on(runtime.spawn(accept(upstream)))?
}

async fn accept(upstream: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        // A host that hangs up only ends its own connections.
        tokio::spawn(forward(stream, upstream));
    }
}

async fn forward(host: TcpStream, upstream: SocketAddr) -> anyhow::Result<()> {
    host.set_nodelay(true)?;
    let server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    let (sender, connection) = handshake::<_, Incoming>(TokioIo::new(server)).await?;
    tokio::spawn(connection);
    // A connection has one exchange at a time, so nobody ever waits for this lock.
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(move |request: Request<Incoming>| {
        let sender = Arc::clone(&sender);
        async move {
            let mut sender = sender.lock().await;
            sender.ready().await?;
            sender.send_request(request).await
        }
    });
    Ok(http1::Builder::new().serve_connection(TokioIo::new(host), service).await?)
}
