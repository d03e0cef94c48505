//! Who may send requests: names, web origins, tokens, methods and paths.

use bowline_server::HttpSettings;
use serde_json::json;

use crate::test_server::{TestServer, begin_session, initialize, refusal, request};

const NEWEST: &str = "2025-11-25";

/// SE-10: a request for another name, or from a web page elsewhere, is refused.
#[tokio::test]
async fn se_10_foreign_names_and_origins_are_refused() {
    let server = TestServer::start().await;
    for host in ["evil.example", "localhost.evil.example", "192.168.0.1"] {
        for (method, path) in
            [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/healthz"), ("GET", "/x")]
        {
            let reply = server.client.with("host", host).send(method, path, "").await;
            assert_eq!(reply.expect_json(403).await, refusal(-32600, "this Host is not allowed"), "{host}");
        }
    }
    for origin in ["http://evil.example", "null", "http://localhost.evil.example"] {
        let reply = server.client.with("origin", origin).post(&initialize(NEWEST)).await;
        assert_eq!(reply.header("access-control-allow-origin"), None);
        assert_eq!(reply.expect_json(403).await, refusal(-32600, "this Origin is not allowed"), "{origin}");
    }
    for host in ["localhost:1", "127.0.0.1", "[::1]:65535"] {
        assert_eq!(server.client.with("host", host).post(&initialize(NEWEST)).await.status, 200);
    }
    let page = server.client.with("origin", "http://localhost:5173").post(&initialize(NEWEST)).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("access-control-allow-origin"), Some("http://localhost:5173"));
    assert_eq!(page.header("access-control-expose-headers"), Some("Mcp-Session-Id, WWW-Authenticate"));
    assert_eq!(page.header("vary"), Some("Origin"));
}

#[tokio::test]
async fn allowed_names_and_origins_are_served() {
    let settings = HttpSettings::new()
        .with_allowed_hosts(["gateway.example"])
        .with_allowed_origins(["https://app.example"]);
    let server = TestServer::start_with(settings).await;
    let client = server.client.with("host", "gateway.example:8443").with("origin", "https://app.example");
    begin_session(&client, NEWEST).await;
}

#[tokio::test]
async fn preflight_is_answered_for_allowed_origins_only() {
    let server = TestServer::start_with(HttpSettings::new().with_bearer_token("secret")).await;
    let allowed = server.client.with("origin", "http://localhost:5173").send("OPTIONS", "/mcp", "").await;
    assert_eq!(allowed.header("access-control-allow-origin"), Some("http://localhost:5173"));
    assert_eq!(allowed.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert_eq!(
        allowed.header("access-control-allow-headers"),
        Some(
            "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id"
        )
    );
    allowed.expect_empty(204).await;
    assert_eq!(
        server.client.with("origin", "http://evil.example").send("OPTIONS", "/mcp", "").await.status,
        403
    );
    let client = server.client.with("authorization", "Bearer secret");
    assert_eq!(client.send("OPTIONS", "/mcp", "").await.status, 405);
}

/// SE-08: a session id is no authentication; each request needs the token.
#[tokio::test]
async fn se_08_each_request_needs_the_token() {
    let server = TestServer::start_with(HttpSettings::new().with_bearer_token("secret")).await;
    let host = begin_session(&server.client.with("authorization", "Bearer secret"), NEWEST).await;
    for wrong in [
        host.without("authorization"),
        host.with("authorization", "Bearer secret2"),
        host.with("authorization", "Basic secret"),
        // A second header, whatever its spelling: a proxy in front may check that one.
        host.with("Authorization", "Bearer secret"),
    ] {
        for method in ["POST", "GET", "DELETE", "PUT"] {
            let reply = wrong.send(method, "/mcp", &request(1, "ping", json!({})).to_string()).await;
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            assert_eq!(reply.expect_json(401).await, refusal(-32600, "a bearer token is required"));
        }
    }
    assert_eq!(host.post(&request(1, "ping", json!({}))).await.status, 200);
    for path in ["/healthz", "/readyz"] {
        let reply = server.client.send("GET", path, "").await;
        assert_eq!((reply.status, &*reply.text().await), (200, "ok"));
    }
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let server = TestServer::start_with(HttpSettings::new().with_endpoint("/v1/mcp")).await;
    for method in ["PUT", "PATCH", "HEAD", "OPTIONS"] {
        let reply = server.client.send(method, "/v1/mcp", "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, POST, DELETE")), "{method}");
    }
    let reply = server.client.send("POST", "/healthz", "").await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")));
    for path in ["/mcp", "/", "/v1/mcp/", "/v1/mcp/x", "/healthz/x"] {
        assert_eq!(
            server.client.send("POST", path, &initialize(NEWEST).to_string()).await.status,
            404,
            "{path}"
        );
    }
    let found = server.client.send("POST", "/v1/mcp?x=1", &initialize(NEWEST).to_string()).await;
    assert_eq!(found.status, 200);
}

/// On a Unix socket names are not checked, but origins are.
#[cfg(unix)]
#[tokio::test]
async fn unix_socket_is_served_by_any_name() {
    use tokio::net::{UnixListener, UnixStream};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let socket = UnixListener::bind(&path).unwrap();
    let mut listener = bowline_server::HttpListener::unix(socket, HttpSettings::new());
    assert_eq!(listener.local_addr(), None);
    tokio::spawn(async move {
        while let Some(host) = listener.accept().await {
            tokio::spawn(crate::test_server::serve_host(host, tokio::sync::mpsc::unbounded_channel().0));
        }
    });
    let client = crate::http_client::HttpClient::new(([127, 0, 0, 1], 0).into()).with("host", "anything");
    let body = initialize(NEWEST).to_string();
    let stream = UnixStream::connect(&path).await.unwrap();
    assert_eq!(client.send_on(stream, "POST", "/mcp", &body).await.status, 200);
    let stream = UnixStream::connect(&path).await.unwrap();
    let page = client.with("origin", "http://evil.example");
    assert_eq!(page.send_on(stream, "POST", "/mcp", &body).await.status, 403);
}

/// What whoever serves the hosts says of its state is for programs of the user, and so for none over TCP.
#[cfg(unix)]
#[tokio::test]
async fn status_is_reported_on_a_unix_socket_alone() {
    use bowline_server::HttpListener;
    use tokio::net::{TcpListener, UnixListener, UnixStream};

    let report = || r#"{"stale_lists":[]}"#.to_owned();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = HttpListener::unix(UnixListener::bind(&path).unwrap(), HttpSettings::new());
    let client = crate::http_client::HttpClient::new(([127, 0, 0, 1], 0).into());
    let send = async |method: &str| {
        let stream = UnixStream::connect(&path).await.unwrap();
        client.send_on(stream, method, "/status", "").await
    };
    assert_eq!(send("GET").await.status, 404, "nobody reports");
    listener.report_status(report);
    assert_eq!(send("GET").await.expect_json(200).await, serde_json::json!({"stale_lists": []}));
    assert_eq!(send("POST").await.status, 405);

    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = HttpListener::tcp(socket, HttpSettings::new());
    listener.report_status(report);
    let client = crate::http_client::HttpClient::new(listener.local_addr().unwrap());
    assert_eq!(client.send("GET", "/status", "").await.status, 404);
}
