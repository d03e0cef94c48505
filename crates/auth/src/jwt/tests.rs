//! Every kind of key signs, and its public half verifies the signature.

use base64::prelude::BASE64_STANDARD;
use bowline_config::TokenAuth;
use bowline_testkit::{AuthServer, with};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Value, json};

use super::*;
use crate::testing::{CLIENT_ID, client, discovery};

/// Generated for these tests only. `ring` cannot generate RSA keys.
pub(crate) const RSA: &str = "-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDk62HMsfp3do8A
i5fb565edZ4S1QZUzH0jIjwPstBiBPPr0X4KDY3znhxx1jkMvyqqNq0zvQaHTIAu
ahMRzG87IWUb+ycBXq5jvNKq8wPzDbCWCgGxjL7HBWbUxMAg17A6Voam2Gx0TYjV
gPQ6BDZMWahPQyJZ8s6LIEeHrCpOW8+8u8hpr6/gFx+BmIPinW89X5uGWU6fGzSj
rhvh+hj/R7vfXyvdfMbkHfqrqkQBbLItn33+jFGS1wzTqh3hisHLK/DHp1PH9Jsn
Ax+Ir72ig5SIshM+v/jLgOcOYwVz78xsxXmPEUz0VCiTFq+F9onHY/Yp0u84DLSE
UjXVmtv/AgMBAAECggEASAUf40D5Tl1f9ylz0O0OaExzu3QGxmYBVqzeHYhB1By/
yujBURNbnhIX296sWyzHlP6XtkfZhnaUe0XHExnwwrcqcsesyVsK3XkaBEtpai3b
6RBj4QKpQL8bz4PI+GwzVt9DBLnhQSPlkVo9PAV4OcQZVjqGU6s2vQGeT3pkYvsa
KQyWxiSLSgdTcAT5ouK6puBYgk8JaJYqWhzA/iDc4PQLsx2YKsEwXfOT9BUCKQdi
rc93Y9o3j+sda6ddwQAtQFeeayTSsjPYXUGUUYPhmlCk5eTm5rRKgOK/LsEqVkub
Zfp+1w7/HCC4rNmr6y8aJXxF2qlMIo+PcHJ1DkRpIQKBgQD8DQ/Ry85uV3OAR15i
Il0o2bm7Yso8c/YFKaGo9WzvxFEyrGGZI3D43W/EdJGQi37Y1TB4VT9S88g/l5Ah
p0naZ/3KIpvc6NO+1KiwUK4SyBKq5RqjjnD8VaMfIovvMaPr0DDc/cxW57gRqkEd
EJ9yElxvffGPwzs4GXtG5rEdXwKBgQDogYsGmw65bzpyOKOPh3F0U8fBDa5mb0PR
CwxHrjGUjorhfNM0xTD4fk9Hq5DJMDGhu0nQonuntq7u7B68TI49fgzZEOmLtJP+
YkJHM2KhAtopJYWI73XW7kYf25h/IBKBtv83ySyyty7siF6qpx2m5NtiAfcNxeLp
ctr8tMAlYQKBgQCwDyensicF6EwjpLaG8d4E9ODJxZ3iUFXfEU98x8JKUOUu8j5S
S/FTxMmXfp1XTDlUmMX8p/9NoD+WO/ZPq5zo1I7wLPCWhIOz3rPeRNzy/ZIckV/k
M1E00VTaILWCZThNNeWL2DRt1/o5TKWi+cOGWND8iAq+Eu9Apnv38JhzHQKBgCBV
c5oVkjSjjUM5MTXSpiqBRDRKzMgeDRZTLQAC744zTIkTLOQX0DmehzP2Xgo8k4pk
W12SWxP1ydocKCITm2xdzTearH/rOvGThJgWQ08U8HXsa+ehNYgQVtwzU7/KHAjC
BDgj1/16kCIAzPl6iBsflIrKryrRLD8+48lk8ZvBAoGAXg6lnHNTyHwKXlcCzv83
4XD82EW1x120IA6eULx5EJ72ekwY4gmecq5sRT41FUxG+U7f28kJtThao8hZ3qz4
bznEdc8rP2tifUmPiqJXBYcui/mLPo+et4yaQv5q5lTIZWNBkFH7wW7E5/+sp9a2
CBwGhl35nh+x/4mEaebdtO8=
-----END PRIVATE KEY-----";

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", BASE64_STANDARD.encode(der))
}

pub(crate) fn p384() -> String {
    let made =
        EcdsaKeyPair::generate_pkcs8(&signature::ECDSA_P384_SHA384_FIXED_SIGNING, &SystemRandom::new());
    pem("PRIVATE KEY", made.unwrap().as_ref())
}

pub(crate) fn ed25519() -> String {
    pem("PRIVATE KEY", Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref())
}

/// The RSA key of the other tests in PKCS #1, the older form that PKCS #8 wraps.
fn rsa_pkcs1() -> String {
    let PrivateKeyDer::Pkcs8(key) = PrivateKeyDer::from_pem_slice(RSA.as_bytes()).unwrap() else {
        panic!("the key of the tests is in PKCS #8")
    };
    // The wrapping of a key of this size takes 26 bytes.
    pem("RSA PRIVATE KEY", &key.secret_pkcs8_der()[26..])
}

fn key(pem: &str, algorithm: Option<&str>) -> SigningKey {
    with!(SigningKey::new(pem), id: Some("k1".into()), algorithm: algorithm.map(str::to_owned))
}

/// Header and claims, after verifying the signature.
fn verified(token: &str, by: &'static dyn VerificationAlgorithm, public: &[u8]) -> (Value, Value) {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    UnparsedPublicKey::new(by, public).verify(signed.as_bytes(), &signature).unwrap();
    let json = |part: &str| serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    (json(header), json(claims))
}

#[test]
fn each_kind_of_key_signs() {
    let (p256, p384, ed25519, rsa_pkcs1) =
        (bowline_testkit::SigningKey::generate_pem().0, p384(), ed25519(), rsa_pkcs1());
    let cases: [(&str, Option<&str>, &str, &'static dyn VerificationAlgorithm); 7] = [
        (&p256, None, "ES256", &ECDSA_P256_SHA256_FIXED),
        (&p384, None, "ES384", &ECDSA_P384_SHA384_FIXED),
        (&ed25519, None, "EdDSA", &ED25519),
        (RSA, None, "RS256", &RSA_PKCS1_2048_8192_SHA256),
        (RSA, Some("PS256"), "PS256", &RSA_PSS_2048_8192_SHA256),
        (RSA, Some("RS512"), "RS512", &RSA_PKCS1_2048_8192_SHA512),
        (&rsa_pkcs1, None, "RS256", &RSA_PKCS1_2048_8192_SHA256),
    ];
    for (pem, asked, algorithm, by) in cases {
        let signer = Signer::new(&key(pem, asked), None).unwrap();
        let token = signer.sign(signer.header(), &json!({"a": "ü"}));
        let (header, claims) = verified(&token, by, signer.public());
        assert_eq!(header, json!({"typ": "JWT", "alg": algorithm, "kid": "k1"}));
        assert_eq!(claims, json!({"a": "ü"}));
    }
}

// AX-02
#[test]
fn the_algorithm_is_one_that_the_other_side_verifies() {
    let accepted = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let signer = Signer::new(&key(RSA, None), Some(&accepted(&["ES256", "PS384"]))).unwrap();
    assert_eq!(signer.algorithm, Algorithm::PS384);
    let error = Signer::new(&key(RSA, Some("RS256")), Some(&accepted(&["PS256"]))).unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert!(error.what.contains("PS256") && error.what.contains("RS256"), "{error}");
    let error = Signer::new(&key(&p384(), Some("ES256")), None).unwrap_err();
    assert!(error.what.contains("ES256") && error.hint.unwrap().contains("ES384"));
    for symmetric in ["HS256", "none"] {
        assert!(Signer::new(&key(RSA, Some(symmetric)), None).is_err(), "{symmetric}");
    }
}

#[test]
fn an_unusable_key_is_an_error_without_the_key_in_it() {
    let secret = "MIIBVQIBADANBgkqhkiG9w0BAQEFAASC";
    for pem in [
        String::new(),
        secret.to_owned(),
        format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----"),
        format!("-----BEGIN EC PRIVATE KEY-----\n{secret}\n-----END EC PRIVATE KEY-----"),
    ] {
        let error = Signer::new(&key(&pem, None), None).unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup);
        assert!(!format!("{error:?}").contains(secret));
        assert!(error.hint.unwrap().contains("openssl pkcs8"));
    }
}

// AX-01
#[tokio::test]
async fn an_assertion_says_what_the_standard_wants() {
    let server = AuthServer::start().await;
    let (discovery, mut client) = (discovery(&server), client(&server, TokenAuth::PrivateKeyJwt));
    let (pem, _) = bowline_testkit::SigningKey::generate_pem();
    let signer = Signer::new(&key(&pem, None), None).unwrap();
    client.key = Some(key(&pem, None));
    let read = |token: Secret| verified(token.expose(), &ECDSA_P256_SHA256_FIXED, signer.public()).1;
    let (one, two) = (
        client_assertion(&client, &discovery.metadata).unwrap(),
        client_assertion(&client, &discovery.metadata).unwrap(),
    );
    let (one, two) = (read(one), read(two));
    assert_eq!((&one["iss"], &one["sub"]), (&CLIENT_ID.into(), &CLIENT_ID.into()));
    assert_eq!(one["aud"], server.issuer());
    let (iat, exp) = (one["iat"].as_u64().unwrap(), one["exp"].as_u64().unwrap());
    assert!(exp > iat && exp - iat <= 300 && iat.abs_diff(unix_seconds(SystemTime::now())) < 60);
    assert_ne!(one["jti"], two["jti"]);
    client.audience = Some(server.endpoint("token"));
    assert_eq!(
        read(client_assertion(&client, &discovery.metadata).unwrap())["aud"],
        server.endpoint("token")
    );
    client.key = None;
    assert_eq!(client_assertion(&client, &discovery.metadata).unwrap_err().kind, AuthErrorKind::Setup);
}
