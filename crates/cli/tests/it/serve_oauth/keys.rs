//! When the keys of an issuer are fetched.

use bowline_testkit::SigningKey;
use futures_util::future::join_all;
use serde_json::json;

use super::{Team, initialize};

/// A token with a key that nobody has, which costs nothing to make.
fn forged(team: &Team) -> String {
    let claims = json!({"iss": team.issuer.issuer(), "sub": "m", "aud": team.url, "exp": 9_999_999_999_u64});
    let key = SigningKey::generate();
    key.sign(json!({"kid": key.id()}), &claims)
}

/// Tokens with unknown keys have the issuer asked once, however many there are.
#[tokio::test]
async fn forged_tokens_do_not_make_requests_to_the_issuer() {
    let team = Team::new("").await;
    let gateway = team.serve().await;
    assert_eq!(team.status("/mcp", &team.token("")).await, 200);
    assert_eq!((team.issuer.count("metadata"), team.issuer.count("jwks")), (1, 1));
    for _ in 0..10 {
        let at_once = [(); 5].map(|()| async { team.status("/mcp", &forged(&team)).await });
        assert_eq!(join_all(at_once).await, [401; 5]);
    }
    assert_eq!((team.issuer.count("metadata"), team.issuer.count("jwks")), (2, 2));
    assert_eq!(team.status("/mcp", &team.token("")).await, 200);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A new key is found by the first token that it signs; tokens of the old one are no longer accepted.
#[tokio::test]
async fn a_rotated_key_is_followed() {
    let team = Team::new("").await;
    let gateway = team.serve().await;
    let before = team.token("");
    assert_eq!(team.status("/mcp", &before).await, 200);
    team.issuer.rotate_key();
    let after = team.token("");
    assert_eq!(team.status("/mcp", &after).await, 200);
    assert_eq!(team.status("/mcp", &before).await, 401);
    assert_eq!(team.issuer.count("jwks"), 2);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// An issuer that is down does not lock anybody out whose token can be verified.
#[tokio::test]
async fn keys_are_kept_while_the_issuer_is_down() {
    let team = Team::new("").await;
    let gateway = team.serve().await;
    let token = team.token("");
    assert_eq!(team.status("/mcp", &token).await, 200);
    team.issuer.stop().await;
    assert_eq!(team.status("/mcp", &token).await, 200);
    // The issuer may have this key by now, so it is not said that the token is wrong.
    let reply = team.post("/mcp", &forged(&team), "", &initialize()).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("5")));
    assert_eq!(team.status("/mcp", &token).await, 200);
    assert_eq!(gateway.terminate().await.code(), Some(0));
    // Without any key, nothing can be verified; the owner is served all the same.
    let gateway = team.serve().await;
    let reply = team.post("/mcp", &token, "", &initialize()).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("5")));
    assert_eq!(reply.header("www-authenticate"), None, "a login would not help");
    let owner = std::fs::read_to_string(team.context.path("home/.local/state/bowline/serve-token"));
    assert_eq!(team.status("/mcp", &owner.expect("a token")).await, 200);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
