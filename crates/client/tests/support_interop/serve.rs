//! Serves an rmcp server over HTTP or stdio.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt as _};

/// Serves on a free loopback port until the runtime ends. Returns the URL.
pub(crate) async fn http(server: impl ServerHandler + Clone, config: StreamableHttpServerConfig) -> String {
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper_util::service::TowerToHyperService::new(service.clone());
            let stream = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(stream, service));
        }
    });
    url
}

/// Serves on this process's stdin and stdout until the client leaves.
pub(crate) async fn stdio(server: impl ServerHandler) {
    if let Ok(running) = server.serve(rmcp::transport::io::stdio()).await {
        let _ = running.waiting().await;
    }
}
