//! Which tokens are accepted.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bowline_testkit::canary::record_secret;
use bowline_testkit::{AuthServer, SigningKey};
use ring::hmac;
use serde_json::{Value, json};

use super::{Team, expect_line, initialize};

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn encode(part: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(part)
}

fn claims(team: &Team) -> Value {
    let (iss, now) = (team.issuer.issuer(), seconds_now());
    json!({"iss": iss, "sub": "alice", "aud": team.url, "iat": now, "exp": now + 600, "scope": "mcp"})
}

/// A token with this header, and a signature that its claims and header are given to.
fn forge(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    let token = format!("{message}.{}", encode(sign(message.as_bytes())));
    record_secret(&token);
    token
}

/// GW-11: each of these is refused with 401 and `invalid_token`, for a reason that only the log has.
#[tokio::test]
async fn gw_11_only_valid_tokens_are_accepted() {
    let team = Team::new("scopes = ['mcp']\n").await;
    let mut gateway = team.serve().await;
    let with = |name: &str, value: Value| {
        let mut claims = claims(&team);
        claims[name] = value;
        team.issuer.sign_token(json!({"typ": "at+jwt"}), &claims)
    };
    assert_eq!(team.status("/mcp", &with("jti", json!("1"))).await, 200);
    let other = AuthServer::builder().jwt_access_tokens().start().await;
    let jwk = team.issuer.jwk();
    let header = |alg: &str| json!({"alg": alg, "typ": "at+jwt", "kid": jwk["kid"]});
    let key = hmac::Key::new(hmac::HMAC_SHA256, jwk.to_string().as_bytes());
    let by_public_key = |message: &[u8]| hmac::sign(&key, message).as_ref().to_vec();
    let forger = SigningKey::generate().sign(json!({"typ": "at+jwt", "kid": jwk["kid"]}), &claims(&team));
    record_secret(&forger);
    for (what, token, reason) in [
        (
            "other audience",
            with("aud", json!("https://other.example/mcp")),
            "the token is for another resource",
        ),
        (
            "parent",
            with("aud", json!(team.url.trim_end_matches("/mcp"))),
            "the token is for another resource",
        ),
        ("expired", with("exp", json!(seconds_now() - 3600)), "the token has expired"),
        ("future", with("nbf", json!(seconds_now() + 3600)), "the token is not valid yet"),
        (
            "other issuer",
            other.issue("client", "mcp", &team.url).access_token,
            "the issuer of the token is not accepted",
        ),
        (
            "claims the issuer",
            other.sign_token(json!({"typ": "at+jwt"}), &claims(&team)),
            "the token is signed with an unknown key",
        ),
        ("claims the key", forger, "the signature of the token is wrong"),
        ("bound", with("cnf", json!({"jkt": "x"})), "the token is bound to a key"),
        (
            "none",
            forge(&header("none"), &claims(&team), |_| Vec::new()),
            "the algorithm of the token is not accepted",
        ),
        (
            "HS256",
            forge(&header("HS256"), &claims(&team), by_public_key),
            "the algorithm of the token is not accepted",
        ),
        ("no JWT", "opaque".to_owned(), "the token is not a JWT"),
        ("too long", "x".repeat(17 * 1024), "the token is too long"),
    ] {
        let reply = team.post("/mcp", &token, "", &initialize()).await;
        assert_eq!(reply.status, 401, "{what}");
        let challenge = reply.header("www-authenticate").expect("a challenge");
        assert!(challenge.starts_with("Bearer error=\"invalid_token\", scope=\"mcp\", "), "{challenge}");
        assert_eq!(reply.message()["error"]["message"], "the access token is not valid", "{what}");
        expect_line(&mut gateway, reason).await;
    }
    assert_eq!(other.count("jwks"), 0, "an issuer that is not configured is not asked");
    assert_eq!(team.server.initialize_count(), 1, "only the valid token reached the server");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// GW-11: a stream for what servers announce ends with the token that it was opened with. The session goes on.
#[tokio::test]
async fn gw_11_streams_end_when_their_token_expires() {
    let team = Team::new("").await;
    let gateway = team.serve().await;
    let lasting = team.issuer.sign_token(json!({"typ": "at+jwt"}), &claims(&team));
    let session = team.begin("/mcp", &lasting).await;
    let mut short = claims(&team);
    // Clocks may differ by a minute.
    short["exp"] = json!(seconds_now() - 60 + 5);
    let short = team.issuer.sign_token(json!({"typ": "at+jwt"}), &short);
    let token = format!("authorization: Bearer {short}\r\n");
    let stream = format!("{token}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let listen = format!("{token}mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let listen_body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let listen_body = listen_body.to_string();
    let replies = tokio::join!(
        // Each of them is read to its end.
        team.exchange("GET /mcp", &stream, ""),
        team.exchange("GET /sse", &token, ""),
        team.exchange("POST /mcp", &listen, &listen_body),
    );
    for reply in [replies.0, replies.1, replies.2] {
        let kind = reply.header("content-type");
        assert_eq!((reply.status, kind), (200, Some("text/event-stream")), "{}", reply.body);
    }
    assert_eq!(team.status("/mcp", &short).await, 401);
    assert_eq!(team.tools("/mcp", &lasting, &session).await, ["echo", "counter"]);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
