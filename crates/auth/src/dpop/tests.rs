//! The content of proofs, and when tokens are bound to a key.

use bowline_testkit::with;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;

use super::*;

/// Header and claims of a proof, after verifying its signature with the key in its own header.
fn verified(proof: &str) -> (Value, Value) {
    let (signed, signature) = proof.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let json = |part: &str| serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    let (header, claims): (Value, Value) = (json(header), json(claims));
    let part = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(header["jwk"][name].as_str().unwrap()).unwrap();
    let point = [vec![4], part("x"), part("y")].concat();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed.as_bytes(), &signature).unwrap();
    (header, claims)
}

async fn key() -> Key {
    Key::load_or_create(&EncryptedStore::in_memory(), "files").await.unwrap()
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

// AX-06
#[tokio::test]
async fn a_proof_says_what_the_standard_wants() {
    let key = key().await;
    let token = Secret::new("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU");
    let proof = key.proof(&Method::GET, &url("https://rs.example/mcp?a=b#c"), Some(&token), Some("n"));
    let (header, claims) = verified(&proof);
    assert_eq!((&header["typ"], &header["alg"]), (&"dpop+jwt".into(), &"ES256".into()));
    let jwk = header["jwk"].as_object().unwrap();
    assert_eq!(jwk.keys().collect::<Vec<_>>(), ["crv", "kty", "x", "y"], "the public half, and no more");
    assert_eq!(claims["htm"], "GET");
    assert_eq!(claims["htu"], "https://rs.example/mcp");
    assert_eq!(claims["nonce"], "n");
    // The example of RFC 9449 §7.
    assert_eq!(claims["ath"], "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo");
    let age = jwt::unix_seconds(SystemTime::now()).abs_diff(claims["iat"].as_u64().unwrap());
    assert!(age < 60);
}

// AX-06
#[tokio::test]
async fn no_two_proofs_are_alike() {
    let key = key().await;
    let at = url("https://rs.example/mcp");
    let ids: std::collections::HashSet<_> =
        (0..100).map(|_| verified(&key.proof(&Method::POST, &at, None, None)).1["jti"].to_string()).collect();
    assert_eq!(ids.len(), 100);
    let claims = verified(&key.proof(&Method::POST, &at, None, None)).1;
    assert!(claims.get("ath").is_none() && claims.get("nonce").is_none());
}

#[tokio::test]
async fn the_key_is_kept_and_each_server_has_its_own() {
    let safe = EncryptedStore::in_memory();
    let one = Key::load_or_create(&safe, "one").await.unwrap();
    assert_eq!(Key::load_or_create(&safe, "one").await.unwrap().thumbprint(), one.thumbprint());
    assert_ne!(Key::load_or_create(&safe, "two").await.unwrap().thumbprint(), one.thumbprint());
    Key::delete(&safe, "one").await.unwrap();
    assert_ne!(Key::load_or_create(&safe, "one").await.unwrap().thumbprint(), one.thumbprint());
}

#[tokio::test]
async fn all_who_make_a_key_at_once_get_the_same() {
    let safe = EncryptedStore::in_memory();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let safe = safe.clone();
            tokio::spawn(
                async move { Key::load_or_create(&safe, "one").await.unwrap().thumbprint().to_owned() },
            )
        })
        .collect();
    let mut prints = std::collections::HashSet::new();
    for task in tasks {
        prints.insert(task.await.unwrap());
    }
    assert_eq!(prints.len(), 1);
}

#[tokio::test]
async fn a_damaged_key_is_an_error_and_not_another_key() {
    let safe = EncryptedStore::in_memory();
    let at = bowline_store::Key::new(RECORD_KIND, "one");
    safe.put(&at, "nonsense", Precondition::Any).await.unwrap();
    assert_eq!(Key::load_or_create(&safe, "one").await.unwrap_err().kind, AuthErrorKind::Store);
}

#[tokio::test]
async fn the_private_half_is_not_shown() {
    let shown = format!("{:?}", key().await);
    assert!(shown.starts_with("Key { thumbprint: "), "{shown}");
}

// AX-06: only where the authorization server supports it, and by default only where the server
// wants it.
#[tokio::test]
async fn when_tokens_are_bound() {
    let server = bowline_testkit::AuthServer::start().await;
    let mut discovery = crate::testing::discovery(&server);
    let auth = |dpop| with!(AuthSettings::default(), dpop: dpop);
    let wanted = |discovery: &Discovery, dpop, challenged| {
        should_bind_tokens(&auth(dpop), discovery, challenged).unwrap()
    };

    discovery.metadata.dpop_signing_alg_values_supported = Some(vec!["EdDSA".into(), "ES256".into()]);
    assert!(!wanted(&discovery, Dpop::Auto, false));
    assert!(wanted(&discovery, Dpop::Auto, true));
    assert!(wanted(&discovery, Dpop::Always, false));
    assert!(!wanted(&discovery, Dpop::Never, true));
    discovery.wants_dpop = true;
    assert!(wanted(&discovery, Dpop::Auto, false));

    for none in [None, Some(vec![])] {
        discovery.metadata.dpop_signing_alg_values_supported = none;
        assert!(!wanted(&discovery, Dpop::Auto, true) && !wanted(&discovery, Dpop::Never, true));
        let error = should_bind_tokens(&auth(Dpop::Always), &discovery, false).unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup, "never a bearer token in its place");
        let what = "the authorization server does not announce DPoP, which `dpop = true` requires";
        let hint = "leave `dpop` out of the server's `auth` to use bearer tokens";
        assert_eq!((&*error.what, error.hint.as_deref()), (what, Some(hint)));
    }

    discovery.metadata.dpop_signing_alg_values_supported = Some(vec!["RS256".into(), "none".into()]);
    let error = should_bind_tokens(&auth(Dpop::Auto), &discovery, true).unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    let what = "the authorization server accepts DPoP proofs signed with RS256, none, but not with ES256";
    assert_eq!(error.what, what);
}
