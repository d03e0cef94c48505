//! A gateway in front of several servers.

mod calls;
mod catalog;
mod http_host;
mod questions;
mod recovery;
mod resources;
mod stateless_host;

use bowline::Server;
use bowline_gateway::Gateway;
use bowline_testkit::HttpServer;

/// The configuration of a server.
fn at(name: &str, server: &HttpServer) -> Server {
    Server::http(name, server.url()).build().expect("a loopback URL")
}

fn gateway(servers: impl IntoIterator<Item = Server>) -> Gateway {
    Gateway::builder(servers).build()
}
