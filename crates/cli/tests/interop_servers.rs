//! Servers written by others, from the package registries, behind one `bowline serve`: their tools are
//! all there, calls have exact results, and so has a call that comes right after the process of its
//! server was killed. Nothing is left running.
//!
//! The servers have no way to leave this machine.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

#[path = "interop_servers/expected_call.rs"]
mod expected_call;
#[path = "interop_servers/gateway.rs"]
mod gateway;
#[path = "../../client/tests/support_interop/limit.rs"]
mod limit;
#[path = "interop_servers/node_servers.rs"]
mod node_servers;
#[path = "interop_servers/page.rs"]
mod page;
#[path = "interop_servers/peer_server.rs"]
mod peer_server;
#[path = "interop_servers/processes.rs"]
mod processes;
#[path = "interop_servers/python_servers.rs"]
mod python_servers;
#[path = "interop_servers/site.rs"]
mod site;

use std::collections::BTreeMap;

use bowline::config::Protocol;
use bowline::{Client, Event, Revision};

use gateway::Gateway;
use limit::within;
use peer_server::PeerServer;
use site::Site;

#[tokio::test]
async fn servers_of_the_registries_for_a_host_of_2026_07_28() {
    check(Protocol::Modern, Revision::V2026_07_28).await;
}

#[tokio::test]
async fn servers_of_the_registries_for_a_host_of_2025_11_25() {
    check(Protocol::Legacy, Revision::V2025_11_25).await;
}

async fn check(protocol: Protocol, revision: Revision) {
    let site = Site::start().await;
    let servers = [node_servers::all(&site), python_servers::all(&site)].concat();
    let mut gateway = Gateway::start(site.home(), &servers).await;
    let client = gateway.connect(protocol).await;
    assert_eq!(client.peer().await.expect("it is connected").revision, revision);

    assert_tools(&client, &servers).await;
    for server in &servers {
        for call in &server.calls {
            call.check(&client, server.name).await;
        }
    }
    for server in &servers {
        let before = gateway.only_process_of(server.name).await;
        gateway.kill(before).await;
        for call in &server.calls_after_kill {
            call.check(&client, server.name).await;
        }
        let after = gateway.only_process_of(server.name).await;
        assert_ne!(before, after, "{} runs in a new process", server.name);
    }

    within("the client closes", client.close()).await;
    gateway.stop().await;
}

/// Waits until the host is offered the tools of all servers, and no others.
async fn assert_tools(client: &Client, servers: &[PeerServer]) {
    let expected: BTreeMap<_, Vec<_>> =
        servers.iter().map(|server| (server.name.to_owned(), server.tools.to_vec())).collect();
    let mut events = client.events();
    let waiting = async {
        loop {
            let tools = client.list_tools().await.expect("a list");
            let mut offered = BTreeMap::<_, Vec<_>>::new();
            for tool in &tools {
                let (server, name) = tool.name.split_once("__").expect("a name with a prefix");
                offered.entry(server.to_owned()).or_default().push(name);
            }
            if offered == expected {
                return;
            }
            println!("offered so far: {offered:#?}");
            // A server that starts slowly is announced later.
            while !is_announcement(&events.next().await.expect("it is connected")) {}
        }
    };
    within("all tools are offered", waiting).await;
}

/// Whether an event announces that the list of tools has changed.
fn is_announcement(event: &Event) -> bool {
    matches!(event, Event::Notification(it) if &*it.method == "notifications/tools/list_changed")
}
