//! Owns whether authorization codes are safe at an authorization server (AF-01).

use crate::discovery::{Discovery, DiscoveryKind};
use crate::error::{AuthError, AuthErrorKind, sanitize};

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
    let issuer = sanitize(&discovery.metadata.issuer);
    let what =
        format!("{issuer} does not say that it protects codes (PKCE by S256), so no login is begun there");
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::tests::discovery;

    fn asked(kind: DiscoveryKind, methods: Option<&[&str]>) -> Result<(), AuthErrorKind> {
        let mut place = discovery();
        place.kind = kind;
        place.metadata.code_challenge_methods_supported =
            methods.map(|methods| methods.iter().map(ToString::to_string).collect());
        check_supported(&place).map_err(|error| error.kind)
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
