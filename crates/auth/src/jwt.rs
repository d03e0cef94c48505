//! Signs JWTs: which algorithm fits a key, and how the parts are assembled (RFC 7515, 7519).
//!
//! `rustls-pki-types` reads PEM, `ring` reads keys and makes the signatures. A JWT crate could do all
//! of it, but with a provider that is chosen once per process, and a library must not choose that for
//! the program it is part of.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bowline_config::{Secret, SigningKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Serialize;

use crate::client::OAuthClient;
use crate::discovery::Metadata;
use crate::error::{AuthError, AuthErrorKind, sanitize};

/// The lifetime of an assertion. It is used at once; the rest allows for clock differences.
const ASSERTION_LIFE: Duration = Duration::from_secs(3 * 60);

/// A key with its signature algorithm.
pub(crate) struct Signer {
    pair: KeyPair,
    algorithm: Algorithm,
    id: Option<String>,
}

/// The signature algorithms of RFC 7518 and RFC 8037 that keys here can have, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Algorithm {
    ES256,
    ES384,
    EdDSA,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
}

impl Algorithm {
    /// The algorithm of this name. EdDSA has a second one (RFC 9864).
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "ES256" => Self::ES256,
            "ES384" => Self::ES384,
            "EdDSA" | "Ed25519" => Self::EdDSA,
            "RS256" => Self::RS256,
            "RS384" => Self::RS384,
            "RS512" => Self::RS512,
            "PS256" => Self::PS256,
            "PS384" => Self::PS384,
            "PS512" => Self::PS512,
            _ => return None,
        })
    }
}

/// The header of a JWT.
#[derive(Debug, Serialize)]
pub(crate) struct Header {
    pub(crate) typ: &'static str,
    pub(crate) alg: Algorithm,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jwk: Option<Jwk>,
}

/// The public half of an ES256 key (RFC 7517).
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Jwk {
    pub(crate) kty: &'static str,
    pub(crate) crv: &'static str,
    pub(crate) x: String,
    pub(crate) y: String,
}

enum KeyPair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// Creates the assertion that authenticates a client (RFC 7523 §3, AX-01). Single-use and
/// short-lived.
pub(crate) fn client_assertion(client: &OAuthClient, metadata: &Metadata) -> Result<Secret, AuthError> {
    let key = client.key.as_ref().ok_or_else(|| {
        setup_error(format!(
            "the client {} authenticates with a key, but none is configured",
            sanitize(&client.id)
        ))
        .hint("set `private_key` in the server's `auth`")
    })?;
    let signer = Signer::new(key, metadata.token_endpoint_auth_signing_alg_values_supported.as_deref())?;
    let now = unix_seconds(SystemTime::now());
    let claims = AssertionClaims {
        iss: &client.id,
        sub: &client.id,
        aud: client.audience.as_deref().unwrap_or(&metadata.issuer),
        iat: now,
        exp: now + ASSERTION_LIFE.as_secs(),
        jti: random_id(),
    };
    Ok(Secret::new(signer.sign(signer.header(), &claims)))
}

#[derive(Serialize)]
struct AssertionClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
}

impl Signer {
    /// Loads a configured key. `accepted` lists the algorithms that the other side verifies; a key
    /// that supports none of them is an error before anything is sent (AX-02).
    pub(crate) fn new(key: &SigningKey, accepted: Option<&[String]>) -> Result<Self, AuthError> {
        let pair = KeyPair::from_pem(key.pem.expose())?;
        let able = pair.algorithms();
        let wanted: Vec<Algorithm> = match &key.algorithm {
            Some(name) => able.iter().copied().filter(|able| algorithm_name(*able) == *name).collect(),
            None => able.to_vec(),
        };
        if wanted.is_empty() {
            let able: Vec<_> = able.iter().map(|able| algorithm_name(*able)).collect();
            let name = sanitize(key.algorithm.as_deref().unwrap_or_default());
            let what = format!("the configured key cannot sign with {name}");
            return Err(setup_error(what).hint(format!("it can sign with {}", able.join(", "))));
        }
        let fits =
            |algorithm: &Algorithm| accepted.is_none_or(|names| names.contains(&algorithm_name(*algorithm)));
        let Some(algorithm) = wanted.iter().copied().find(fits) else {
            let wanted: Vec<_> = wanted.iter().map(|it| algorithm_name(*it)).collect();
            let accepted = sanitize(&accepted.unwrap_or_default().join(", "));
            let what = format!(
                "the authorization server accepts assertions signed with {accepted}, but the configured key signs with {}",
                wanted.join(", ")
            );
            return Err(setup_error(what).hint("configure a key of a kind that it accepts"));
        };
        Ok(Self { pair, algorithm, id: key.id.clone() })
    }

    /// Loads an ES256 key from PKCS #8, as [`generate_es256_key`] creates it.
    pub(crate) fn es256(pkcs8: &[u8]) -> Option<Self> {
        let pair = KeyPair::p256(pkcs8)?;
        Some(Self { pair, algorithm: Algorithm::ES256, id: None })
    }

    /// The JWT header for this key.
    pub(crate) fn header(&self) -> Header {
        Header { typ: "JWT", alg: self.algorithm, kid: self.id.clone(), jwk: None }
    }

    /// Signs claims, and returns the compact form.
    pub(crate) fn sign(&self, header: Header, claims: &impl Serialize) -> String {
        let part = |json: Result<Vec<u8>, _>| {
            BASE64_URL_SAFE_NO_PAD.encode(json.expect("headers and claims are plain data"))
        };
        let head = part(serde_json::to_vec(&header));
        let message = format!("{head}.{}", part(serde_json::to_vec(claims)));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.pair.sign(message.as_bytes(), self.algorithm));
        format!("{message}.{signature}")
    }

    /// Signs a message that is no JWT yet.
    #[cfg(test)]
    pub(crate) fn sign_bytes(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message, self.algorithm)
    }

    /// The public half, in the encoding of its kind of key.
    pub(crate) fn public(&self) -> &[u8] {
        use ring::signature::KeyPair as _;
        match &self.pair {
            KeyPair::P256(pair) | KeyPair::P384(pair) => pair.public_key().as_ref(),
            KeyPair::Ed25519(pair) => pair.public_key().as_ref(),
            KeyPair::Rsa(pair) => pair.public_key().as_ref(),
        }
    }
}

impl KeyPair {
    fn from_pem(pem: &str) -> Result<Self, AuthError> {
        let pair = match PrivateKeyDer::from_pem_slice(pem.trim().as_bytes()) {
            Ok(PrivateKeyDer::Pkcs8(key)) => Self::from_pkcs8(key.secret_pkcs8_der()),
            Ok(PrivateKeyDer::Pkcs1(key)) => RsaKeyPair::from_der(key.secret_pkcs1_der()).ok().map(Self::Rsa),
            _ => None,
        };
        pair.ok_or_else(|| {
            // The error shows nothing of the key, not even what is wrong with it.
            setup_error("the configured private key cannot be used".to_owned())
                .hint("it has to be PEM of PKCS #8 with a P-256, P-384, Ed25519 or RSA key of 2048 to 4096 bits; `openssl pkcs8 -topk8 -nocrypt` converts others")
        })
    }

    fn from_pkcs8(key: &[u8]) -> Option<Self> {
        Self::p256(key)
            .or_else(|| Self::p384(key))
            .or_else(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).ok().map(Self::Ed25519))
            .or_else(|| RsaKeyPair::from_pkcs8(key).ok().map(Self::Rsa))
    }

    fn p256(pkcs8: &[u8]) -> Option<Self> {
        let kind = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        EcdsaKeyPair::from_pkcs8(kind, pkcs8, &SystemRandom::new()).ok().map(Self::P256)
    }

    fn p384(pkcs8: &[u8]) -> Option<Self> {
        let kind = &signature::ECDSA_P384_SHA384_FIXED_SIGNING;
        EcdsaKeyPair::from_pkcs8(kind, pkcs8, &SystemRandom::new()).ok().map(Self::P384)
    }

    /// The supported algorithms, most common first.
    fn algorithms(&self) -> &'static [Algorithm] {
        match self {
            Self::P256(_) => &[Algorithm::ES256],
            Self::P384(_) => &[Algorithm::ES384],
            Self::Ed25519(_) => &[Algorithm::EdDSA],
            Self::Rsa(_) => &[
                Algorithm::RS256,
                Algorithm::PS256,
                Algorithm::RS384,
                Algorithm::PS384,
                Algorithm::RS512,
                Algorithm::PS512,
            ],
        }
    }

    fn sign(&self, message: &[u8], algorithm: Algorithm) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(pair) | Self::P384(pair) => {
                pair.sign(&random, message).expect("the system gives random numbers").as_ref().to_vec()
            }
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Rsa(pair) => {
                let padding: &dyn signature::RsaEncoding = match algorithm {
                    Algorithm::PS256 => &signature::RSA_PSS_SHA256,
                    Algorithm::PS384 => &signature::RSA_PSS_SHA384,
                    Algorithm::PS512 => &signature::RSA_PSS_SHA512,
                    Algorithm::RS384 => &signature::RSA_PKCS1_SHA384,
                    Algorithm::RS512 => &signature::RSA_PKCS1_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut out = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message, &mut out).expect("the buffer fits the key");
                out
            }
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("algorithm", &self.algorithm)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Generates an ES256 key as PKCS #8.
pub(crate) fn generate_es256_key() -> Vec<u8> {
    let kind = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let made = EcdsaKeyPair::generate_pkcs8(kind, &SystemRandom::new());
    made.expect("the system gives random numbers").as_ref().to_vec()
}

/// 128 random bits, for identifiers that must be unique.
pub(crate) fn random_id() -> String {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since the epoch, as in JWT claims.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn algorithm_name(algorithm: Algorithm) -> String {
    format!("{algorithm:?}")
}

fn setup_error(what: String) -> AuthError {
    AuthError::new(AuthErrorKind::Setup, what)
}

#[cfg(test)]
pub(crate) mod tests;
