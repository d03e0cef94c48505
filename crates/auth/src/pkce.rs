//! Owns PKCE (RFC 7636): the verifier and challenge of a login, and whether an authorization server
//! checks them (AF-01).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::discovery::{Discovery, DiscoveryKind};
use crate::error::{AuthError, AuthErrorKind, sanitize_url};

/// Generates a code verifier from 256 random bits.
pub(crate) fn new_verifier() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the S256 code challenge of a verifier.
pub(crate) fn challenge(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

/// Fails unless PKCE protects the code, so that a stolen one is useless.
///
/// Since 2025-11-25 an authorization server must announce S256. One of 2025-03-26 must support it
/// and need not announce it; if it lists its methods, the list counts.
pub(crate) fn check_supported(discovery: &Discovery) -> Result<(), AuthError> {
    let methods = discovery.metadata.code_challenge_methods_supported.as_deref();
    let safe = match (methods, discovery.kind) {
        (Some(methods), _) => methods.iter().any(|method| method == "S256"),
        (None, DiscoveryKind::Origin | DiscoveryKind::DefaultEndpoints) => true,
        (None, DiscoveryKind::Described) => false,
    };
    if safe {
        return Ok(());
    }
    let issuer = sanitize_url(&discovery.metadata.issuer);
    let what = format!("{issuer} does not announce PKCE with S256, without which no login is started");
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::tests::bare_discovery;

    fn asked(kind: DiscoveryKind, methods: Option<&[&str]>) -> Result<(), AuthErrorKind> {
        let mut discovery = bare_discovery();
        discovery.kind = kind;
        discovery.metadata.code_challenge_methods_supported =
            methods.map(|methods| methods.iter().map(ToString::to_string).collect());
        check_supported(&discovery).map_err(|error| error.kind)
    }

    #[test]
    fn the_challenge_is_that_of_the_rfc() {
        // RFC 7636, appendix B.
        let challenge = challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn each_verifier_is_new_and_of_the_shortest_length_allowed() {
        let (one, other) = (new_verifier(), new_verifier());
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
    }

    #[test]
    fn af_01_s256_has_to_be_offered() {
        let refused = Err(AuthErrorKind::Untrusted);
        for kind in [DiscoveryKind::Described, DiscoveryKind::Origin, DiscoveryKind::DefaultEndpoints] {
            assert_eq!(asked(kind, Some(&["plain", "S256"])), Ok(()), "{kind:?}");
            assert_eq!(asked(kind, Some(&["plain", "s256"])), refused, "{kind:?}");
            assert_eq!(asked(kind, Some(&[])), refused, "{kind:?}");
        }
        assert_eq!(asked(DiscoveryKind::Described, None), refused);
        assert_eq!(asked(DiscoveryKind::Origin, None), Ok(()));
        assert_eq!(asked(DiscoveryKind::DefaultEndpoints, None), Ok(()));
    }
}
