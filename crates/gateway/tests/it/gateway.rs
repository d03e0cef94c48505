//! A gateway in front of several servers.

mod asking;
mod calls;
mod catalog;
mod failing_lists;
mod http_host;
mod kill_steps;
mod lost_sessions;
mod questions;
mod recovery;
mod reload;
mod resources;
mod sharing;
mod stateless_host;
mod tasks;
mod views;

use std::path::Path;
use std::time::Duration;

use bowline::Server;
use bowline_gateway::Gateway;
use bowline_testkit::HttpServer;

/// The configuration of a server.
fn at(name: &str, server: &HttpServer) -> Server {
    Server::http(name, server.url()).build().expect("a loopback URL")
}

/// Waits until the lists of a server are in the cache.
async fn wait_for_cached_lists(folder: &Path) {
    let is_saved = || {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .map(|file| file.path())
            .any(|path| path.extension().is_some_and(|extension| extension == "json"))
    };
    while !is_saved() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn gateway(servers: impl IntoIterator<Item = Server>) -> Gateway {
    Gateway::builder(servers).build()
}
