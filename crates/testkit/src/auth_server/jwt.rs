//! JSON Web Tokens and keys, as far as the test servers sign and check them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, KeyPair as _,
    RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Value, json};

/// A signing key (ES256) with its public half as a JWK. Tests use it to play a client with a key,
/// an issuer of assertions, or a forger.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl SigningKey {
    /// Generates a key.
    pub fn generate() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .expect("the system gives random numbers");
        Self::from_pkcs8(document.as_ref())
    }

    fn from_pkcs8(document: &[u8]) -> Self {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random)
            .expect("a P-256 key in PKCS#8");
        Self { pair, random }
    }

    /// Generates a key as PEM, for a client that reads its key from a file or the environment, and
    /// returns it with its public JWK.
    pub fn generate_pem() -> (String, Value) {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .expect("the system gives random numbers");
        let body = base64::engine::general_purpose::STANDARD.encode(document.as_ref());
        let lines: Vec<&str> =
            body.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
        (pem, Self::from_pkcs8(document.as_ref()).jwk())
    }

    /// Returns the public half as a JWK.
    pub fn jwk(&self) -> Value {
        // An uncompressed point: 0x04, x, y.
        let point = self.pair.public_key().as_ref();
        json!({
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig",
            "x": BASE64.encode(&point[1..33]), "y": BASE64.encode(&point[33..65]),
        })
    }

    /// Returns the name of the key, its thumbprint.
    pub fn id(&self) -> String {
        thumbprint(&self.jwk()).expect("it is a P-256 key")
    }

    /// Returns the public half as an issuer publishes it, with its name.
    pub(super) fn published_jwk(&self) -> Value {
        let mut jwk = self.jwk();
        jwk["kid"] = json!(self.id());
        jwk
    }

    /// Returns a signed token. `alg` is added to the header.
    pub fn sign(&self, mut header: Value, claims: &Value) -> String {
        header["alg"] = json!("ES256");
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = self.pair.sign(&self.random, signed.as_bytes()).expect("the key signs");
        format!("{signed}.{}", BASE64.encode(signature.as_ref()))
    }
}

/// A parsed token whose signature is not yet verified.
pub(super) struct Jwt {
    pub(super) header: Value,
    pub(super) claims: Value,
    signed: String,
    signature: Vec<u8>,
}

impl Jwt {
    pub(super) fn parse(token: &str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let json = |part: &str| serde_json::from_slice(&BASE64.decode(part).ok()?).ok();
        Some(Self {
            header: json(header)?,
            claims: json(claims)?,
            signed: signed.to_owned(),
            signature: BASE64.decode(signature).ok()?,
        })
    }

    /// Returns whether this public key verifies the signature.
    pub(super) fn is_signed_by(&self, jwk: &Value) -> bool {
        let part = |name: &str| jwk[name].as_str().and_then(|text| BASE64.decode(text).ok());
        let (signed, signature) = (self.signed.as_bytes(), self.signature.as_slice());
        match self.header["alg"].as_str() {
            Some("ES256") => {
                let (Some(x), Some(y)) = (part("x"), part("y")) else { return false };
                let point = [&[4], x.as_slice(), y.as_slice()].concat();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
            Some("EdDSA" | "Ed25519") => part("x")
                .is_some_and(|x| UnparsedPublicKey::new(&ED25519, x).verify(signed, signature).is_ok()),
            Some(alg @ ("RS256" | "PS256")) => {
                let (Some(n), Some(e)) = (part("n"), part("e")) else { return false };
                let scheme =
                    if alg == "RS256" { &RSA_PKCS1_2048_8192_SHA256 } else { &RSA_PSS_2048_8192_SHA256 };
                RsaPublicKeyComponents { n, e }.verify(scheme, signed, signature).is_ok()
            }
            _ => false,
        }
    }

    pub(super) fn claim_text(&self, claim: &str) -> Option<&str> {
        self.claims[claim].as_str()
    }

    /// Returns whether `aud` is, or contains, one of these.
    pub(super) fn has_audience(&self, audiences: &[&str]) -> bool {
        match &self.claims["aud"] {
            Value::String(aud) => audiences.contains(&aud.as_str()),
            Value::Array(list) => list.iter().filter_map(Value::as_str).any(|aud| audiences.contains(&aud)),
            _ => false,
        }
    }

    /// Returns whether the token is valid now, with a minute's leeway. One without `exp` is not.
    pub(super) fn is_current(&self, now: u64) -> bool {
        let time = |claim: &str| self.claims[claim].as_f64();
        #[expect(clippy::cast_precision_loss, reason = "seconds of this century are exact")]
        let now = now as f64;
        time("exp").is_some_and(|exp| exp + 60.0 > now) && time("nbf").is_none_or(|nbf| nbf - 60.0 < now)
    }
}

/// Returns the thumbprint of a JWK (RFC 7638).
pub(super) fn thumbprint(jwk: &Value) -> Option<String> {
    let names: &[&str] = match jwk["kty"].as_str()? {
        "EC" => &["crv", "kty", "x", "y"],
        "OKP" => &["crv", "kty", "x"],
        "RSA" => &["e", "kty", "n"],
        _ => return None,
    };
    let members: Option<Vec<String>> =
        names.iter().map(|name| Some(format!("\"{name}\":{}", json!(jwk[name].as_str()?)))).collect();
    Some(sha256_base64url(&format!("{{{}}}", members?.join(","))))
}

/// Returns the SHA-256 of a text in base64url, as PKCE, `ath` and thumbprints need it.
pub(super) fn sha256_base64url(text: &str) -> String {
    BASE64.encode(digest(&SHA256, text.as_bytes()))
}

/// Returns a random text of 32 characters.
pub(super) fn random_text() -> String {
    let mut bytes = [0; 24];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    BASE64.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_checked() {
        let (key, other) = (SigningKey::generate(), SigningKey::generate());
        let token = key.sign(json!({"typ": "JWT"}), &json!({"sub": "a", "exp": 100}));
        let jwt = Jwt::parse(&token).unwrap();
        assert!(jwt.is_signed_by(&key.jwk()));
        assert!(!jwt.is_signed_by(&other.jwk()));
        assert!(jwt.is_current(159) && !jwt.is_current(160));
        let forged =
            format!("{}{}", token.split_once('.').unwrap().0, ".e30.") + token.rsplit_once('.').unwrap().1;
        assert!(!Jwt::parse(&forged).unwrap().is_signed_by(&key.jwk()));
    }

    #[test]
    fn thumbprints_are_those_of_rfc_7638() {
        let jwk = json!({
            "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
            "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        });
        assert_eq!(thumbprint(&jwk).unwrap(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    }
}
