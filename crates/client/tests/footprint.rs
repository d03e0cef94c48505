//! Memory that an idle client holds. This is a test binary of its own because it counts every
//! allocation of the process.

use std::net::TcpListener;

use bowline::{Client, Server};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// A registry and a gateway receive the events of every client, so memory for pending events must
/// not be allocated before there are any.
#[tokio::test]
async fn client_whose_events_are_received_holds_little_memory() {
    // This listener accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/mcp", silent.local_addr().expect("bound"));
    let open = || {
        let client = Client::builder(Server::http("silent", &url)).open().expect("opened");
        let events = client.events();
        (client, events)
    };
    let _first = open();
    let before = ALLOCATOR.current_usage();
    let clients: Vec<_> = (0..CLIENT_COUNT).map(|_| open()).collect();
    let each = (ALLOCATOR.current_usage() - before) / CLIENT_COUNT;
    drop(clients);
    assert!(each < MAX_BYTES_PER_CLIENT, "{each} bytes for each client");
}

const CLIENT_COUNT: usize = 20;
const MAX_BYTES_PER_CLIENT: usize = 32 * 1024;
