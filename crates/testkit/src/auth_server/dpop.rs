//! DPoP proofs of possession (RFC 9449): each is valid for one request and once.

use hyper::HeaderMap;

use super::jwt::{Jwt, sha256_base64url, thumbprint};
use super::vault::Vault;
use super::wall_clock;

/// The request that a proof must match.
pub(super) struct ExpectedProof<'a> {
    pub(super) method: &'a str,
    /// The URL without query and fragment.
    pub(super) url: &'a str,
    /// The access token that the proof accompanies.
    pub(super) token: Option<&'a str>,
    pub(super) nonce: Option<&'a str>,
}

/// Why a proof is rejected.
pub(super) enum ProofRejection {
    /// Everything is valid except the nonce.
    WrongNonce,
    InvalidProof(&'static str),
}

/// Checks the proof of a request and returns the thumbprint of its key; `None` if there is no
/// proof.
pub(super) fn check_proof(
    headers: &HeaderMap,
    expected: &ExpectedProof,
    vault: &mut Vault,
) -> Result<Option<String>, ProofRejection> {
    let mut proofs = headers.get_all("dpop").iter();
    let Some(proof) = proofs.next() else { return Ok(None) };
    let no = |why| Err(ProofRejection::InvalidProof(why));
    if proofs.next().is_some() {
        return no("more than one proof");
    }
    let Some(jwt) = proof.to_str().ok().and_then(Jwt::parse) else { return no("no JWT") };
    let key = &jwt.header["jwk"];
    if jwt.header["typ"] != "dpop+jwt" {
        return no("typ is not dpop+jwt");
    }
    if key.get("d").is_some() {
        return no("the private key is in the proof");
    }
    if !jwt.is_signed_by(key) {
        return no("the signature is wrong, or of a kind that is not taken");
    }
    if jwt.claim_text("htm") != Some(expected.method) {
        return no("htm is another method");
    }
    if jwt.claim_text("htu") != Some(expected.url) {
        return no("htu is another address");
    }
    if jwt.claims["iat"].as_u64().is_none_or(|iat| iat.abs_diff(wall_clock().as_secs()) > 300) {
        return no("iat is not now");
    }
    if jwt.claim_text("ath").map(str::to_owned) != expected.token.map(sha256_base64url) {
        return no("ath is of another token");
    }
    if !jwt.claim_text("jti").is_some_and(|id| vault.record_first_use("proof", id)) {
        return no("jti is missing or was used before");
    }
    if expected.nonce.is_some() && jwt.claim_text("nonce") != expected.nonce {
        return Err(ProofRejection::WrongNonce);
    }
    thumbprint(key).map_or_else(|| no("a key of an unknown kind"), |print| Ok(Some(print)))
}
