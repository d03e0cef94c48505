//! A fault of one server is healed below the session of the host, and the others see nothing of it.

use std::time::Duration;

use bowline::Server;
use bowline_gateway::UNREACHABLE;
use bowline_testkit::{self as testkit, HttpServer, Tool};
use serde_json::json;

use super::{at, gateway};
use crate::support::{TestHost, result_text};

async fn servers(count: usize) -> Vec<HttpServer> {
    let mut servers = Vec::new();
    for number in 0..count {
        let counter = Tool::like(&format!("count{number}"), "counter");
        let lookup = Tool::like(&format!("lookup{number}"), "echo").read_only();
        servers.push(testkit::server().legacy().tool(counter).tool(lookup).run().await);
    }
    servers
}

fn configured(servers: &[HttpServer]) -> Vec<Server> {
    servers.iter().enumerate().map(|(number, server)| at(&format!("s{number}"), server)).collect()
}

#[tokio::test]
async fn a_lost_session_of_one_server_is_seen_by_nobody() {
    let servers = servers(10).await;
    let mut host = TestHost::join_with(&gateway(configured(&servers)), json!({})).await;
    assert_eq!(host.tools().await.len(), 20);
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(result_text(&host.call_tool(1, &format!("count{number}"), json!({})).await), "1");
        server.drop_sessions();
        assert_eq!(result_text(&host.call_tool(2, &format!("count{number}"), json!({})).await), "2");
        assert_eq!(server.initialize_count(), 2);
        for other in &servers[number + 1..] {
            assert_eq!(other.initialize_count(), 1, "the others see nothing");
        }
    }
    assert!(host.is_silent().await);
}

#[tokio::test]
async fn a_restarted_server_is_used_again_and_one_that_is_down_says_so() {
    let servers = servers(2).await;
    let impatient = at("s0", &servers[0]).with_reconnect_wait(Duration::ZERO);
    let mut patient = TestHost::join_with(&gateway([at("s0", &servers[0])]), json!({})).await;
    let mut host = TestHost::join_with(&gateway([impatient, at("s1", &servers[1])]), json!({})).await;
    assert_eq!((patient.tools().await.len(), host.tools().await.len()), (2, 4));
    servers[0].restart().await;
    result_text(&patient.call_tool(1, "lookup0", json!({})).await);
    servers[0].stop().await;
    let answer = host.call_tool(2, "count0", json!({})).await;
    assert_eq!(answer["error"]["code"], UNREACHABLE);
    assert_eq!(answer["error"]["data"]["bowline"]["server"], "s0");
    assert_eq!(result_text(&host.call_tool(3, "count1", json!({})).await), "1");
    assert_eq!(servers[0].executions("count0"), 0);
}
