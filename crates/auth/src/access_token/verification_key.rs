//! Owns which public keys of an issuer are usable, and how they verify a signature (RFC 7517, RFC 7518,
//! RFC 8037).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use crate::jwt::Algorithm;

/// A public key of an issuer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VerificationKey {
    id: Option<String>,
    /// The only algorithm that the key is for, if its issuer says so.
    algorithm: Option<Algorithm>,
    material: KeyMaterial,
}

/// A public key in the encoding that `ring` takes.
#[derive(Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl VerificationKey {
    /// Reads a JWK. `None` if it is no key that verifies signatures, or of a kind that is not
    /// supported. A symmetric key never is.
    pub(super) fn from_jwk(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let is_for_signatures = jwk.get("use").is_none_or(|usage| usage == "sig");
        let verifies = |ops: &Value| ops.as_array().is_some_and(|ops| ops.iter().any(|op| op == "verify"));
        if !is_for_signatures || !jwk.get("key_ops").is_none_or(verifies) {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyMaterial::Rsa { n: without_zeros(bytes("n")?), e: without_zeros(bytes("e")?) },
            ("EC", Some("P-256")) => KeyMaterial::P256(point(bytes("x")?, bytes("y")?, 32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(bytes("x")?, bytes("y")?, 48)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes("x")?),
            _ => return None,
        };
        let algorithm = match jwk.get("alg") {
            None => None,
            Some(name) => Some(Algorithm::from_name(name.as_str()?)?),
        };
        Some(Self { id: text("kid").map(str::to_owned), algorithm, material })
    }

    /// The name of the key.
    pub(super) fn id(&self) -> Option<&String> {
        self.id.as_ref()
    }

    /// Whether the key can verify signatures by this algorithm.
    pub(super) fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && self.material.fits(algorithm)
    }

    /// Whether the signature of a message is by this key and algorithm.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.fits(algorithm) && self.material.verifies(algorithm, message, signature)
    }
}

impl KeyMaterial {
    fn fits(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
        match algorithm {
            RS256 | RS384 | RS512 | PS256 | PS384 | PS512 => matches!(self, Self::Rsa { .. }),
            ES256 => matches!(self, Self::P256(_)),
            ES384 => matches!(self, Self::P384(_)),
            EdDSA => matches!(self, Self::Ed25519(_)),
        }
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Rsa { n, e } => {
                let padding = match algorithm {
                    Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
                    Algorithm::ES256 | Algorithm::ES384 | Algorithm::EdDSA => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(padding, message, signature)
            }
            Self::P256(key) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            Self::P384(key) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, key).verify(message, signature)
            }
            Self::Ed25519(key) => UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

/// An uncompressed point of two coordinates, each of `length` bytes.
fn point(x: Vec<u8>, y: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [&[4], &*x, &*y].concat())
}

/// A number without leading zeros, which some issuers write.
fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}
