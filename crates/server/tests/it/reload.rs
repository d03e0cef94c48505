//! Settings that are changed while hosts are served.

use bowline_server::{HostLimits, HttpSettings};
use serde_json::{Value, json};

use crate::test_server::{TestServer, initialize, request};
use crate::views::ViewHost;

fn settings(views: &[(&str, &str)]) -> HttpSettings {
    let settings = HttpSettings::new().with_bearer_token("general");
    views.iter().fold(settings, |settings, (view, token)| settings.with_view(view, Some(token)))
}

/// Sessions of a view that is gone end: their hosts get 404, as the protocol has it, and a new one is
/// refused. Those of other views go on, also if they have another token.
#[tokio::test]
async fn sessions_of_a_removed_view_end() {
    let (server, control) = TestServer::start_with_control(settings(&[("a", "one"), ("b", "two")])).await;
    let host = |path, token: &str| ViewHost::new(&server.client, path, token);
    let (a, a_by_path, b, all) =
        (host("/mcp", "one"), host("/mcp/a", "general"), host("/mcp/b", "general"), host("/mcp", "general"));
    let mut sessions = Vec::new();
    for host in [&a, &a_by_path, &b, &all] {
        sessions.push(host.in_session(&host.begin().await));
    }
    control.reload(settings(&[("b", "three"), ("c", "four")]));
    let call = request(1, "view", json!({}));
    let mut statuses = Vec::new();
    for session in &sessions {
        statuses.push(session.post(&call).await.status);
    }
    // The token of the removed view is none, and its path does not exist.
    assert_eq!(statuses, [401, 404, 200, 200]);
    assert_eq!(a_by_path.post(&initialize("2025-11-25")).await.status, 404);
    assert_eq!(host("/mcp", "two").post(&initialize("2025-11-25")).await.status, 401);
    for (path, token, view) in
        [("/mcp", "three", json!("b")), ("/mcp", "four", json!("c")), ("/mcp", "general", Value::Null)]
    {
        let host = host(path, token);
        let id = host.begin().await;
        assert_eq!(host.in_session(&id).view().await, view);
    }
    // The view that comes back has none of its sessions.
    control.reload(settings(&[("a", "one")]));
    assert_eq!(sessions[0].post(&call).await.status, 404);
}

/// Limits hold for sessions that exist, too.
#[tokio::test]
async fn limits_are_changed_for_all_hosts() {
    let (server, control) = TestServer::start_with_control(HttpSettings::new()).await;
    let session = server.initialize("2025-11-25").await;
    let call = request(1, "view", json!({}));
    for _ in 0..3 {
        assert_eq!(session.post(&call).await.expect_json(200).await["result"], json!({"view": null}));
    }
    let limits = HostLimits::new().with_rate(1, 1).with_sessions(1);
    control.reload(HttpSettings::new().with_host_limits(limits).with_message_limit(4096));
    session.post(&call).await.expect_json(200).await;
    let refused = session.post(&call).await.expect_json(200).await;
    assert_eq!(refused["error"]["data"]["bowline"]["cause"], "rate");
    let refused = server.client.post(&initialize("2025-11-25")).await.expect_json(200).await;
    assert_eq!(refused["error"]["data"]["bowline"]["cause"], "sessions");
    let large = request(2, "view", json!({"text": "x".repeat(5000)}));
    assert_eq!(session.post(&large).await.status, 413);
    control.reload(HttpSettings::new());
    session.post(&large).await.expect_json(200).await;
}
