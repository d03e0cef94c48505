//! Where the keys of an issuer are looked for, and what is believed.

use serde_json::json;

use super::*;
use crate::test_site::TestSite;

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OIDC: &str = "/.well-known/openid-configuration";

fn jwk(id: usize) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": id.to_string()})
}

async fn fetch(issuer: &str) -> Result<usize, AuthError> {
    let source = JwksSource::new(issuer, Proxies::Direct)?;
    source.fetch().await.map(|keys| keys.len())
}

#[tokio::test]
async fn keys_are_found_through_either_kind_of_metadata() {
    for path in [OAUTH, OIDC] {
        let site = TestSite::start().await;
        let metadata = json!({"issuer": site.origin(), "jwks_uri": format!("{}/keys", site.origin())});
        site.respond(path, 200, &metadata);
        site.respond("/keys", 200, json!({"keys": [jwk(1), jwk(2)]}));
        assert_eq!(fetch(site.origin()).await, Ok(2), "{path}");
    }
    // An issuer with a path, and metadata of OAuth that has no keys.
    let site = TestSite::start().await;
    let issuer = format!("{}/tenant", site.origin());
    site.respond(&format!("{OAUTH}/tenant"), 200, json!({"issuer": issuer}));
    let metadata = json!({"issuer": issuer, "jwks_uri": format!("{}/keys", site.origin())});
    site.respond(&format!("/tenant{OIDC}"), 200, &metadata);
    site.respond("/keys", 200, json!({"keys": [jwk(1)]}));
    assert_eq!(fetch(&issuer).await, Ok(1));
}

#[tokio::test]
async fn unusable_keys_are_left_out_and_the_number_is_bounded() {
    let site = TestSite::start().await;
    let metadata = json!({"issuer": site.origin(), "jwks_uri": format!("{}/keys", site.origin())});
    site.respond(OAUTH, 200, &metadata);
    let odd = [json!({"kty": "oct", "k": "AAAA"}), json!({"kty": "OKP"}), json!(null), json!("key")];
    let keys: Vec<Value> = odd.into_iter().chain((0..100).map(jwk)).collect();
    site.respond("/keys", 200, json!({"keys": keys}));
    assert_eq!(fetch(site.origin()).await, Ok(MAX_KEYS - 4));
}

#[tokio::test]
async fn what_an_issuer_must_not_say_is_not_believed() {
    use AuthErrorKind::{Unavailable, Untrusted};
    let site = TestSite::start().await;
    let here = format!("{}/keys", site.origin());
    for (metadata, keys, expected) in [
        ((200, json!({"issuer": "https://other", "jwks_uri": here})), (200, json!({"keys": []})), Untrusted),
        ((200, json!({"jwks_uri": here})), (200, json!({"keys": []})), Untrusted),
        ((200, json!({"issuer": site.origin()})), (200, json!({"keys": []})), Untrusted),
        ((200, json!({"issuer": site.origin(), "jwks_uri": "http://h/keys"})), (200, json!({})), Untrusted),
        ((200, json!({"issuer": site.origin(), "jwks_uri": "file:///keys"})), (200, json!({})), Untrusted),
        ((200, json!({"issuer": site.origin(), "jwks_uri": here})), (200, json!({"keys": 1})), Untrusted),
        ((200, json!({"issuer": site.origin(), "jwks_uri": here})), (404, json!({})), Untrusted),
        ((200, json!({"issuer": site.origin(), "jwks_uri": here})), (500, json!({})), Unavailable),
        (
            (200, json!({"issuer": site.origin(), "jwks_uri": here})),
            (200, json!({"keys": [], "x": "x".repeat(300_000)})),
            Untrusted,
        ),
        ((404, json!({})), (200, json!({"keys": []})), Untrusted),
        ((500, json!({})), (200, json!({"keys": []})), Unavailable),
    ] {
        site.respond_only(OAUTH, metadata.0, &metadata.1);
        site.respond_only("/keys", keys.0, &keys.1);
        let error = fetch(site.origin()).await.unwrap_err();
        assert_eq!(error.kind, expected, "{metadata:?} {error}");
    }
    for bad in ["http://h", "https://h?x", "nonsense", "https://me@h"] {
        assert_eq!(JwksSource::new(bad, Proxies::Direct).unwrap_err().kind, Untrusted, "{bad}");
    }
}

/// Whoever can redirect from a site of the issuer need not be the issuer.
#[tokio::test]
async fn neither_metadata_nor_keys_are_redirected_to_another_origin() {
    let (site, other) = (TestSite::start().await, TestSite::start().await);
    let at = |site: &TestSite, path: &str| format!("{}{path}", site.origin());
    let metadata = json!({"issuer": site.origin(), "jwks_uri": at(&site, "/keys")});
    for site in [&site, &other] {
        site.respond("/moved", 200, &metadata);
        site.respond("/moved-keys", 200, json!({"keys": [jwk(1)]}));
    }
    for (metadata_at, keys_at, expected) in [
        (&site, &site, None),
        (&other, &site, Some(at(&other, "/moved"))),
        (&site, &other, Some(at(&other, "/moved-keys"))),
    ] {
        site.respond_only(OAUTH, 302, at(metadata_at, "/moved"));
        site.respond_only("/keys", 307, at(keys_at, "/moved-keys"));
        match (fetch(site.origin()).await, expected) {
            (Ok(keys), None) => assert_eq!(keys, 1),
            (Err(error), Some(target)) => {
                assert!(error.to_string().contains(&target), "{error}");
            }
            (outcome, expected) => panic!("{outcome:?}, {expected:?}"),
        }
    }
    assert_eq!(other.requests().len(), 0, "nothing was fetched there");
}
