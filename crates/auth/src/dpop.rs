//! Owns how tokens are bound to a key (RFC 9449): when, with which key, and what a proof contains.

mod nonces;

use std::fmt;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bowline_config::{AuthSettings, Dpop, Secret};
use bowline_store::{EncryptedStore, Precondition};
use http::Method;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use url::Url;

use crate::discovery::Discovery;
use crate::error::{AuthError, AuthErrorKind, sanitize};
use crate::jwt::{self, Jwk, Signer};

pub(crate) use nonces::Nonces;

/// The algorithm of proofs. Every DPoP implementation supports it.
const ALGORITHM: &str = "ES256";

/// Whether tokens are to be bound to a key. `challenged` says that the server's challenge named
/// DPoP.
///
/// The authorization server must announce support (AX-06); with `dpop = true`, a missing
/// announcement is an error. By default the server must want it too, because a bound token is
/// useless at a server that accepts bearer tokens only.
pub(crate) fn should_bind_tokens(
    auth: &AuthSettings,
    discovery: &Discovery,
    challenged: bool,
) -> Result<bool, AuthError> {
    let wanted = match auth.dpop {
        Dpop::Never => false,
        Dpop::Auto => discovery.wants_dpop || challenged,
        // A value that is not known here binds tokens too, which is what is safe.
        _ => true,
    };
    let offered = discovery.metadata.dpop_signing_alg_values_supported.as_deref().unwrap_or_default();
    if wanted && offered.is_empty() && auth.dpop == Dpop::Always {
        let what = "the authorization server does not announce DPoP, which `dpop = true` requires";
        return Err(AuthError::new(AuthErrorKind::Setup, what)
            .hint("leave `dpop` out of the server's `auth` to use bearer tokens"));
    }
    if !wanted || offered.is_empty() {
        return Ok(false);
    }
    if offered.iter().any(|name| name == ALGORITHM) {
        return Ok(true);
    }
    let what = format!(
        "the authorization server accepts DPoP proofs signed with {}, but not with {ALGORITHM}",
        sanitize(&offered.join(", "))
    );
    Err(AuthError::new(AuthErrorKind::Setup, what)
        .hint("set `dpop` to false if the server accepts bearer tokens"))
}

/// The key of one login, with the nonces that servers issued for it.
pub(crate) struct Key {
    id: String,
    signer: Signer,
    jwk: Jwk,
    thumbprint: String,
    nonces: Nonces,
}

/// The record kind of DPoP keys.
pub(crate) const RECORD_KIND: &str = "dpop-key";

impl Key {
    /// Loads the key of this id, or creates and stores it. Concurrent callers get the same key.
    pub(crate) async fn load_or_create(store: &EncryptedStore, id: &str) -> Result<Self, AuthError> {
        let record_key = bowline_store::Key::new(RECORD_KIND, id);
        if let Some((kept, _)) = store.get::<String>(&record_key).await? {
            return Self::from_pkcs8(id, &kept);
        }
        let generated = BASE64_URL_SAFE_NO_PAD.encode(jwt::generate_es256_key());
        if store.put(&record_key, &generated, Precondition::Absent).await?.is_some() {
            return Self::from_pkcs8(id, &generated);
        }
        match store.get::<String>(&record_key).await? {
            Some((kept, _)) => Self::from_pkcs8(id, &kept),
            None => Err(AuthError::new(
                AuthErrorKind::Store,
                "a DPoP key was deleted from the store right after it was created",
            )),
        }
    }

    /// Deletes a key that no token is bound to any more.
    pub(crate) async fn delete(store: &EncryptedStore, id: &str) -> Result<(), AuthError> {
        store.remove(&bowline_store::Key::new(RECORD_KIND, id), Precondition::Any).await?;
        Ok(())
    }

    fn from_pkcs8(id: &str, kept: &str) -> Result<Self, AuthError> {
        let signer = BASE64_URL_SAFE_NO_PAD.decode(kept).ok().and_then(|pkcs8| Signer::es256(&pkcs8));
        let signer = signer
            .ok_or_else(|| AuthError::new(AuthErrorKind::Store, "the stored DPoP key cannot be used"))?;
        // Uncompressed point: a tag, then both coordinates.
        let (x, y) = signer.public()[1..].split_at(32);
        let (x, y) = (BASE64_URL_SAFE_NO_PAD.encode(x), BASE64_URL_SAFE_NO_PAD.encode(y));
        // RFC 7638: exactly these members, in this order.
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()));
        let jwk = Jwk { kty: "EC", crv: "P-256", x, y };
        Ok(Self { id: id.to_owned(), signer, jwk, thumbprint, nonces: Nonces::default() })
    }

    /// Creates a proof for one request, bound to `token` if given. Every proof is unique.
    pub(crate) fn proof(
        &self,
        method: &Method,
        url: &Url,
        token: Option<&Secret>,
        nonce: Option<&str>,
    ) -> String {
        let mut htu = url.clone();
        htu.set_query(None);
        htu.set_fragment(None);
        let ath =
            token.map(|token| BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, token.expose().as_bytes())));
        let claims = Claims {
            jti: jwt::random_id(),
            htm: method.as_str(),
            htu: htu.as_str(),
            iat: jwt::unix_seconds(SystemTime::now()),
            ath,
            nonce,
        };
        let mut header = self.signer.header();
        header.typ = "dpop+jwt";
        header.jwk = Some(self.jwk.clone());
        self.signer.sign(header, &claims)
    }

    /// The id that the key is stored under.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The thumbprint (RFC 7638): `cnf.jkt` of a bound token, and `dpop_jkt`.
    pub(crate) fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// The nonces that servers issued.
    pub(crate) fn nonces(&self) -> &Nonces {
        &self.nonces
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    jti: String,
    htm: &'a str,
    htu: &'a str,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("thumbprint", &self.thumbprint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
