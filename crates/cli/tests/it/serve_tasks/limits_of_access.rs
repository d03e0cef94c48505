//! Whose tasks are whose: hosts with other tokens, and with other processes in between.

use super::*;

/// The tokens of both views, and of everything.
struct Tokens {
    general: String,
    one: String,
    two: String,
}

/// Starts `bowline serve` with two views that show the same.
async fn start(context: Context, address: &str) -> (Site, Tokens) {
    let mut gateway = Gateway::start(&context, &["--listen", address]);
    let url = gateway.url().await;
    for _ in 0..3 {
        gateway.note().await;
    }
    let read = |name: &str| {
        let path = context.path("home/.local/state/bowline").join(name);
        std::fs::read_to_string(path).expect("a token").trim().to_owned()
    };
    let tokens =
        Tokens { general: read("serve-token"), one: read("serve-token.one"), two: read("serve-token.two") };
    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
    let address = address.to_owned();
    (Site { context, gateway, address }, tokens)
}

/// SE-09: the id of a task is of no use to a host with another token, of either era, also after a
/// restart, and servers do not hear of the attempt.
async fn is_unknown_to_others(revision: Revision, era: ServerEra) {
    let server = server(era).await;
    let context = Context::new();
    context.user_config(&format!("{}[views.one]\n[views.two]\n", http_entry("up", &server)));
    let (site, tokens) = start(context, "127.0.0.1:0").await;
    let mut owner = TaskHost::connect(&site.address, revision, Some(&tokens.one)).await;
    let id = owner.create_id("work").await;
    let Site { context, gateway, address } = site;
    gateway.kill().await;
    let (site, again) = start(context, &address).await;
    assert_eq!(again.one, tokens.one);
    let asked = |server: &HttpServer| {
        server.received().iter().filter(|received| received.method.starts_with("tasks/")).count()
    };
    let unknown = json!({"code": -32_602, "message": "Task not found"});
    for token in [&tokens.two, &tokens.general] {
        for other in [Revision::V2025_11_25, Revision::V2026_07_28] {
            let mut host = TaskHost::connect(&site.address, other, Some(token)).await;
            let own = if host.is_modern() { "tasks/update" } else { "tasks/result" };
            for method in ["tasks/get", "tasks/cancel", own] {
                let params = json!({"taskId": id, "inputResponses": {}});
                assert_eq!(host.error(method, params).await, unknown, "{method}");
            }
            if !host.is_modern() {
                assert_eq!(host.0.result("tasks/list", json!({})).await["tasks"], json!([]));
            }
        }
    }
    assert_eq!(asked(&server), 0);
    owner.0.reconnect().await;
    // The same user finds it with a host of the other era, too.
    for own in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let mut host = TaskHost::connect(&site.address, own, Some(&tokens.one)).await;
        assert_eq!(host.state(&id).await["status"], "working");
    }
    assert!(server.finish_task(&only_task(&server)));
    assert_eq!(owner.wait(&id).await, (End::Text(r#"{"n":1}"#.into()), vec![]));
    site.stop(&server).await;
}

#[tokio::test]
async fn se_09_tasks_of_legacy_hosts_at_legacy_servers_are_their_own() {
    is_unknown_to_others(Revision::V2025_11_25, ServerEra::Legacy).await;
}

#[tokio::test]
async fn se_09_tasks_of_legacy_hosts_at_modern_servers_are_their_own() {
    is_unknown_to_others(Revision::V2025_11_25, ServerEra::Modern).await;
}

#[tokio::test]
async fn se_09_tasks_of_modern_hosts_at_legacy_servers_are_their_own() {
    is_unknown_to_others(Revision::V2026_07_28, ServerEra::Legacy).await;
}

#[tokio::test]
async fn se_09_tasks_of_modern_hosts_at_modern_servers_are_their_own() {
    is_unknown_to_others(Revision::V2026_07_28, ServerEra::Modern).await;
}

/// The key of the ids is readable by its owner only.
#[tokio::test]
async fn se_09_the_key_of_ids_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = server(ServerEra::Legacy).await;
    let site = Site::start(&server).await;
    let key = site.context.path("home/.local/state/bowline/serve-task-key");
    site.host(Revision::V2025_11_25).await;
    assert_eq!(key.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    site.stop(&server).await;
}
