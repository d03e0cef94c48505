//! Owns whether authorization codes are safe at an authorization server (AF-01).

use crate::error::{AuthError, AuthErrorKind, said};
use crate::place::{Place, PlaceKind};

/// Fails unless PKCE protects the code, so that a stolen one is useless.
///
/// Since 2025-11-25 an authorization server must announce S256. One of 2025-03-26 must support it
/// and need not announce it; if it lists its methods, the list counts.
pub(crate) fn allowed(place: &Place) -> Result<(), AuthError> {
    let methods = place.metadata.code_challenge_methods_supported.as_deref();
    let safe = match (methods, place.kind) {
        (Some(methods), _) => methods.iter().any(|method| method == "S256"),
        (None, PlaceKind::Origin | PlaceKind::Default) => true,
        (None, PlaceKind::Described) => false,
    };
    if safe {
        return Ok(());
    }
    let issuer = said(&place.metadata.issuer);
    let what =
        format!("{issuer} does not say that it protects codes (PKCE by S256), so no login is begun there");
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::tests::place;

    fn asked(kind: PlaceKind, methods: Option<&[&str]>) -> Result<(), AuthErrorKind> {
        let mut place = place();
        place.kind = kind;
        place.metadata.code_challenge_methods_supported =
            methods.map(|methods| methods.iter().map(ToString::to_string).collect());
        allowed(&place).map_err(|error| error.kind)
    }

    #[test]
    fn af_01_s256_has_to_be_offered() {
        let refused = Err(AuthErrorKind::Untrusted);
        for kind in [PlaceKind::Described, PlaceKind::Origin, PlaceKind::Default] {
            assert_eq!(asked(kind, Some(&["plain", "S256"])), Ok(()), "{kind:?}");
            assert_eq!(asked(kind, Some(&["plain", "s256"])), refused, "{kind:?}");
            assert_eq!(asked(kind, Some(&[])), refused, "{kind:?}");
        }
        assert_eq!(asked(PlaceKind::Described, None), refused);
        assert_eq!(asked(PlaceKind::Origin, None), Ok(()));
        assert_eq!(asked(PlaceKind::Default, None), Ok(()));
    }
}
