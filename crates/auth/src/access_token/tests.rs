//! Which tokens are accepted: every algorithm, and every reason to refuse one.

use std::slice::from_ref;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bowline_config::SigningKey;
use bowline_testkit::with;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use ring::hmac;
use ring::signature::RsaKeyPair;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::issuer_keys::KeySource;
use super::verification_key::VerificationKey;
use super::*;
use crate::jwt::tests::{RSA, ed25519, p384};
use crate::jwt::{Algorithm, Signer};

const ISSUER: &str = "https://issuer.example";
const RESOURCE: &str = "https://gateway.example/mcp";
const NOW: u64 = 1_800_000_000;

struct FixedKeys(Vec<Value>);

impl KeySource for FixedKeys {
    fn fetch(&self) -> BoxFuture<'static, Result<Vec<VerificationKey>, AuthError>> {
        let keys = self.0.iter().filter_map(VerificationKey::from_jwk).collect();
        std::future::ready(Ok(keys)).boxed()
    }
}

fn verifier(keys: &[Value]) -> AccessTokenVerifier {
    let keys = IssuerKeys::new(ISSUER.to_owned(), FixedKeys(keys.to_vec()));
    AccessTokenVerifier { resource: RESOURCE.to_owned(), issuers: vec![Arc::new(keys)] }
}

async fn verify(keys: &[Value], token: &str) -> Result<VerifiedToken, TokenRejection> {
    verifier(keys).verify_at(token, NOW).await
}

fn encode(part: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(part)
}

/// A key with its public half as a JWK of the name `k1`.
fn key(pem: &str, algorithm: &str) -> (Signer, Value) {
    let key = with!(SigningKey::new(pem), id: Some("k1".into()), algorithm: Some(algorithm.to_owned()));
    let signer = Signer::new(&key, None).unwrap();
    let mut jwk = match algorithm {
        "ES256" | "ES384" => {
            let (curve, (x, y)) = match signer.public()[1..].split_at((signer.public().len() - 1) / 2) {
                halves @ ([_, ..], _) if algorithm == "ES256" => ("P-256", halves),
                halves => ("P-384", halves),
            };
            json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
        }
        "EdDSA" => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(signer.public())}),
        _ => {
            let PrivateKeyDer::Pkcs8(key) = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap() else {
                panic!("the key of the tests is in PKCS #8")
            };
            let pair = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
            let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
            json!({"kty": "RSA", "n": encode(public.n), "e": encode(public.e)})
        }
    };
    jwk["kid"] = json!("k1");
    (signer, jwk)
}

fn es256() -> (Signer, Value) {
    key(&bowline_testkit::SigningKey::generate_pem().0, "ES256")
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "alice", "aud": RESOURCE, "exp": NOW + 600, "nbf": NOW, "iat": NOW,
        "scope": "mcp mcp:research",
    })
}

/// The claims with some of them replaced, or removed by null.
fn claims_with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

/// A token with any header, signed by this key in the right way.
fn token_of(signer: &Signer, header: Value, claims: &Value) -> String {
    let whole = signer.sign(signer.header(), claims);
    let message = format!("{}.{}", encode(header.to_string()), whole.split('.').nth(1).unwrap());
    format!("{message}.{}", encode(signer.sign_bytes(message.as_bytes())))
}

#[tokio::test]
async fn each_algorithm_is_verified() {
    let p256 = bowline_testkit::SigningKey::generate_pem().0;
    let cases = [
        (&*p256, "ES256"),
        (&p384(), "ES384"),
        (&ed25519(), "EdDSA"),
        (RSA, "RS256"),
        (RSA, "RS384"),
        (RSA, "RS512"),
        (RSA, "PS256"),
        (RSA, "PS384"),
        (RSA, "PS512"),
    ];
    for (pem, algorithm) in cases {
        let (signer, mut jwk) = key(pem, algorithm);
        let token = signer.sign(signer.header(), &claims());
        let expected = VerifiedToken {
            issuer: ISSUER.to_owned(),
            subject: "alice".to_owned(),
            scopes: vec!["mcp".to_owned(), "mcp:research".to_owned()],
            accepted_until: UNIX_EPOCH + Duration::from_secs(NOW + 600 + 60),
        };
        assert_eq!(verify(&[jwk.clone()], &token).await, Ok(expected.clone()), "{algorithm}");
        jwk["alg"] = json!(algorithm);
        jwk["use"] = json!("sig");
        jwk["key_ops"] = json!(["verify"]);
        assert_eq!(verify(&[jwk.clone()], &token).await, Ok(expected), "{algorithm}");
        // The key is for another algorithm.
        jwk["alg"] = json!(if algorithm == "RS256" { "PS256" } else { "RS256" });
        assert_eq!(verify(&[jwk], &token).await, Err(TokenDefect::Signature.into()), "{algorithm}");
        // Another bit, in each part.
        for at in [token.find('.').unwrap() + 9, token.len() - 9] {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            let (_, jwk) = key(pem, algorithm);
            assert!(verify(&[jwk], &forged).await.is_err(), "{algorithm}");
        }
    }
}

/// GW-11: audience, expiry and everything else is checked.
#[tokio::test]
async fn gw_11_every_defect_of_the_claims_is_refused() {
    use TokenDefect::{Audience, Bound, Expired, Issuer, Malformed, NotYetValid, Subject};
    let (signer, jwk) = es256();
    for (changes, expected) in [
        (json!({"iss": "https://issuer.example/"}), Issuer),
        (json!({"iss": "https://other.example"}), Issuer),
        (json!({"iss": null}), Issuer),
        (json!({"iss": 1}), Malformed),
        (json!({"aud": "https://gateway.example/mcp/"}), Audience),
        (json!({"aud": "https://gateway.example"}), Audience),
        (json!({"aud": ["https://other.example/mcp"]}), Audience),
        (json!({"aud": []}), Audience),
        (json!({"aud": null}), Audience),
        (json!({"aud": [1]}), Malformed),
        (json!({"exp": NOW - 60}), Expired),
        (json!({"exp": 0}), Expired),
        (json!({"exp": -1e300}), Expired),
        (json!({"exp": null}), Expired),
        (json!({"exp": "never"}), Malformed),
        (json!({"nbf": NOW + 61}), NotYetValid),
        (json!({"iat": NOW + 61}), NotYetValid),
        (json!({"sub": null}), Subject),
        (json!({"sub": ""}), Subject),
        (json!({"sub": "x".repeat(1025)}), Subject),
        (json!({"sub": 7}), Malformed),
        (json!({"cnf": {"jkt": "x"}}), Bound),
        (json!({"scope": 7}), Malformed),
    ] {
        let token = signer.sign(signer.header(), &claims_with(changes.clone()));
        assert_eq!(verify(from_ref(&jwk), &token).await, Err(expected.into()), "{changes}");
    }
}

#[tokio::test]
async fn claims_may_be_written_in_several_ways() {
    let (signer, jwk) = es256();
    let scopes = |changes: Value| {
        let token = signer.sign(signer.header(), &claims_with(changes));
        let jwk = jwk.clone();
        async move { verify(&[jwk], &token).await.unwrap().scopes }
    };
    assert_eq!(scopes(json!({"aud": ["https://other.example", RESOURCE]})).await.len(), 2);
    assert_eq!(scopes(json!({"exp": NOW - 59, "nbf": NOW + 60, "iat": NOW + 60})).await.len(), 2);
    assert_eq!(scopes(json!({"exp": 1_800_000_000.5, "nbf": null, "iat": null})).await.len(), 2);
    assert_eq!(scopes(json!({"scope": null, "scp": ["a", "b"]})).await, ["a", "b"]);
    assert_eq!(scopes(json!({"scope": null, "scp": "a b"})).await, ["a", "b"]);
    assert_eq!(scopes(json!({"scope": ["a", "b\n"]})).await, ["a", "b"]);
    assert!(scopes(json!({"scope": null})).await.is_empty());
}

#[tokio::test]
async fn gw_11_every_defect_of_the_header_is_refused() {
    use TokenDefect::{Algorithm, Critical, Malformed, Signature, Type, UnknownKey};
    let (signer, jwk) = es256();
    for (header, expected) in [
        (json!({"alg": "ES256", "kid": "k1"}), None),
        (json!({"alg": "ES256", "kid": "k1", "typ": "at+jwt"}), None),
        (json!({"alg": "ES256", "kid": "k1", "typ": "application/AT+JWT"}), None),
        (json!({"alg": "ES256"}), None),
        (json!({"alg": "ES256", "kid": "k1", "jwk": {"kty": "EC"}, "jku": "https://evil"}), None),
        (json!({"alg": "none", "kid": "k1"}), Some(Algorithm)),
        (json!({"alg": "None", "kid": "k1"}), Some(Algorithm)),
        (json!({"alg": "HS256", "kid": "k1"}), Some(Algorithm)),
        (json!({"alg": "ES256K", "kid": "k1"}), Some(Algorithm)),
        (json!({"alg": "RS256", "kid": "k1"}), Some(Signature)),
        (json!({"alg": "ES384", "kid": "k1"}), Some(Signature)),
        (json!({"kid": "k1"}), Some(Malformed)),
        (json!({"alg": ["ES256"], "kid": "k1"}), Some(Malformed)),
        (json!({"alg": "ES256", "kid": 1}), Some(Malformed)),
        (json!({"alg": "ES256", "kid": "k1", "typ": "dpop+jwt"}), Some(Type)),
        (json!({"alg": "ES256", "kid": "k1", "typ": "oauth-id-jag+jwt"}), Some(Type)),
        (json!({"alg": "ES256", "kid": "k1", "crit": ["b64"], "b64": false}), Some(Critical)),
        (json!({"alg": "ES256", "kid": "k2"}), Some(UnknownKey)),
        (json!(["ES256"]), Some(Malformed)),
    ] {
        let token = token_of(&signer, header.clone(), &claims());
        let found = verify(from_ref(&jwk), &token).await.err();
        assert_eq!(found, expected.map(TokenRejection::from), "{header}");
    }
    // Two algorithms in one header.
    let header = encode(r#"{"alg":"ES256","kid":"k1","alg":"none"}"#);
    let whole = token_of(&signer, json!({"alg": "ES256", "kid": "k1"}), &claims());
    let twice = format!("{header}{}", &whole[whole.find('.').unwrap()..]);
    assert_eq!(verify(&[jwk], &twice).await, Err(Malformed.into()));
}

/// The public key of an issuer is no secret: with it, anybody could sign by HS256.
#[tokio::test]
async fn a_public_key_is_not_taken_for_a_shared_secret() {
    let (signer, jwk) = es256();
    let secrets = [jwk.to_string().into_bytes(), signer.public().to_vec()];
    for (secret, header) in secrets.iter().flat_map(|secret| {
        ["HS256", "ES256"].map(|alg| (secret, json!({"alg": alg, "kid": "k1", "typ": "at+jwt"})))
    }) {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims().to_string()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
        let token = format!("{message}.{}", encode(tag));
        let symmetric = json!({"kty": "oct", "kid": "k1", "k": encode(secret)});
        for keys in [vec![jwk.clone()], vec![symmetric.clone(), jwk.clone()], vec![symmetric]] {
            assert!(verify(&keys, &token).await.is_err(), "{header}");
        }
    }
}

#[tokio::test]
async fn what_is_no_token_is_refused() {
    use TokenDefect::{Malformed, Signature, TooLong};
    let (signer, jwk) = es256();
    let token = signer.sign(signer.header(), &claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    for (text, expected) in [
        (String::new(), Malformed),
        ("opaque".to_owned(), Malformed),
        ("a.b".to_owned(), Malformed),
        ("..".to_owned(), Malformed),
        (message.to_owned(), Malformed),
        (format!("{message}."), Signature),
        (format!("{token}.x.y"), Malformed),
        (format!("{token}="), Malformed),
        (format!("{message}. {signature}"), Malformed),
        (format!("{}.{signature}", message.replace('.', "..")), Malformed),
        (format!("{token}{}", "A".repeat(16 * 1024)), TooLong),
    ] {
        assert_eq!(verify(from_ref(&jwk), &text).await, Err(expected.into()), "{text:.40}");
    }
}

#[tokio::test]
async fn a_token_without_the_name_of_its_key_is_tried_with_some_keys() {
    let (signer, jwk) = es256();
    let token = token_of(&signer, json!({"alg": "ES256"}), &claims());
    let others = |count: usize| (0..count).map(|_| es256().1).collect::<Vec<_>>();
    let behind = |count: usize| [others(count), vec![jwk.clone()]].concat();
    assert!(verify(&behind(7), &token).await.is_ok());
    assert_eq!(verify(&behind(8), &token).await, Err(TokenDefect::UnknownKey.into()));
    // Keys of other kinds do not count.
    let (_, mut rsa) = key(RSA, "RS256");
    rsa["kid"] = json!("rsa");
    let mixed = [vec![rsa; 20], vec![jwk.clone()]].concat();
    assert!(verify(&mixed, &token).await.is_ok());
}

#[test]
fn keys_that_are_not_for_signatures_are_left_out() {
    let (_, jwk) = es256();
    let with = |changes: Value| {
        let mut jwk = jwk.clone();
        for (name, value) in changes.as_object().unwrap() {
            jwk[name] = value.clone();
        }
        VerificationKey::from_jwk(&jwk).is_some()
    };
    assert!(with(json!({})) && with(json!({"use": "sig", "key_ops": ["sign", "verify"]})));
    for bad in [
        json!({"use": "enc"}),
        json!({"key_ops": ["encrypt"]}),
        json!({"key_ops": "verify"}),
        json!({"alg": "HS256"}),
        json!({"alg": "ECDH-ES"}),
        json!({"alg": 1}),
        json!({"kty": "oct"}),
        json!({"crv": "P-521"}),
        json!({"crv": "P-384"}),
        json!({"x": "AAAA"}),
        json!({"x": "not base64!"}),
        json!({"x": null}),
    ] {
        assert!(!with(bad.clone()), "{bad}");
    }
    assert!(Algorithm::from_name("none").is_none() && Algorithm::from_name("hs256").is_none());
}

#[test]
fn nothing_of_a_token_is_shown() {
    let rejection = TokenRejection::from(TokenDefect::Signature);
    assert_eq!(rejection.to_string(), "the signature of the token is wrong");
    let rejection = TokenRejection::IssuerUnavailable { issuer: ISSUER.to_owned() };
    assert_eq!(rejection.to_string(), "the keys of https://issuer.example cannot be fetched");
}

proptest! {
    /// Whatever is sent, nothing panics and nothing is accepted.
    #[test]
    fn no_text_is_a_token(header in ".{0,60}", claims in ".{0,60}", raw in "[A-Za-z0-9_.-]{0,80}") {
        let (_, jwk) = es256();
        let verifier = verifier(&[jwk]);
        for text in [raw, format!("{}.{}.AAAA", encode(header), encode(claims))] {
            let found = verifier.verify_at(&text, NOW).now_or_never();
            prop_assert!(matches!(found, Some(Err(TokenRejection::Invalid(_)))), "{:?}", found);
        }
    }
}
