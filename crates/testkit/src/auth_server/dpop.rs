//! DPoP proofs of possession (RFC 9449): each is valid for one request and once.

use hyper::HeaderMap;

use super::jwt::{Jwt, sha256, thumbprint};
use super::vault::Vault;
use super::wall;

/// The request that a proof must match.
pub(super) struct Expected<'a> {
    pub(super) method: &'a str,
    /// The URL without query and fragment.
    pub(super) url: &'a str,
    /// The access token that the proof accompanies.
    pub(super) token: Option<&'a str>,
    pub(super) nonce: Option<&'a str>,
}

/// Why a proof is rejected.
pub(super) enum Refused {
    /// Everything is valid except the nonce.
    Nonce,
    Proof(&'static str),
}

/// Checks the proof of a request and returns the thumbprint of its key; `None` if there is no
/// proof.
pub(super) fn check(
    headers: &HeaderMap,
    expected: &Expected,
    vault: &mut Vault,
) -> Result<Option<String>, Refused> {
    let mut proofs = headers.get_all("dpop").iter();
    let Some(proof) = proofs.next() else { return Ok(None) };
    let no = |why| Err(Refused::Proof(why));
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
    if !jwt.signed_by(key) {
        return no("the signature is wrong, or of a kind that is not taken");
    }
    if jwt.text("htm") != Some(expected.method) {
        return no("htm is another method");
    }
    if jwt.text("htu") != Some(expected.url) {
        return no("htu is another address");
    }
    if jwt.claims["iat"].as_u64().is_none_or(|iat| iat.abs_diff(wall().as_secs()) > 300) {
        return no("iat is not now");
    }
    if jwt.text("ath").map(str::to_owned) != expected.token.map(sha256) {
        return no("ath is of another token");
    }
    if !jwt.text("jti").is_some_and(|id| vault.first_use("proof", id)) {
        return no("jti is missing or was used before");
    }
    if expected.nonce.is_some() && jwt.text("nonce") != expected.nonce {
        return Err(Refused::Nonce);
    }
    thumbprint(key).map_or_else(|| no("a key of an unknown kind"), |print| Ok(Some(print)))
}
