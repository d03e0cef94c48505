//! Owns the form of a signed token (RFC 7515): its three parts, and which key it has to be verified
//! with.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::TokenDefect;
use super::verification_key::VerificationKey;
use crate::jwt::Algorithm;

/// A token whose signature is not verified yet.
pub(super) struct CompactToken<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    /// The JSON of the claims.
    pub(super) claims: Vec<u8>,
    /// What is signed.
    message: &'a str,
    signature: Vec<u8>,
}

/// What some keys say about a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureCheck {
    Valid,
    Wrong,
    /// None of the keys is that of the token. Another one that the issuer has may be.
    UnknownKey,
}

/// The header. Members that name a key to trust (`jwk`, `jku`, `x5u`) are not read.
#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// The longest token, in bytes.
const MAX_TOKEN_LENGTH: usize = 16 * 1024;
/// How many keys are tried for a token that does not name its key.
const MAX_TRIED_KEYS: usize = 8;

impl<'a> CompactToken<'a> {
    /// Parses a token.
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenDefect> {
        if token.len() > MAX_TOKEN_LENGTH {
            return Err(TokenDefect::TooLong);
        }
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenDefect::Malformed);
        let (message, signature) = token.rsplit_once('.').ok_or(TokenDefect::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(TokenDefect::Malformed)?;
        let header: TokenHeader =
            serde_json::from_slice(&decode(header)?).map_err(|_| TokenDefect::Malformed)?;
        let algorithm = Algorithm::from_name(&header.alg).ok_or(TokenDefect::Algorithm)?;
        if header.crit.is_some() {
            return Err(TokenDefect::Critical);
        }
        if !header.typ.as_deref().is_none_or(is_accepted_type) {
            return Err(TokenDefect::Type);
        }
        Ok(Self {
            algorithm,
            key_id: header.kid,
            claims: decode(claims)?,
            message,
            signature: decode(signature)?,
        })
    }

    /// Checks the signature with the keys of the issuer.
    pub(super) fn check_signature(&self, keys: &[VerificationKey]) -> SignatureCheck {
        let is_valid =
            |key: &VerificationKey| key.verifies(self.algorithm, self.message.as_bytes(), &self.signature);
        let Some(id) = &self.key_id else {
            let mut fitting = keys.iter().filter(|key| key.fits(self.algorithm)).take(MAX_TRIED_KEYS);
            return if fitting.any(is_valid) { SignatureCheck::Valid } else { SignatureCheck::UnknownKey };
        };
        let mut named = keys.iter().filter(|key| key.id() == Some(id)).take(MAX_TRIED_KEYS).peekable();
        if named.peek().is_none() {
            return SignatureCheck::UnknownKey;
        }
        if named.any(is_valid) { SignatureCheck::Valid } else { SignatureCheck::Wrong }
    }
}

/// Whether a token of this type can be an access token. Many issuers do not say more than that it is a
/// JWT.
fn is_accepted_type(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "at+jwt" | "jwt")
}
