//! [`BearerToken`]: the secret that a request must carry.

use std::fmt;
use std::hint::black_box;

use ring::digest::{Digest, SHA256, digest};

/// The digest of a token. Comparing digests takes the same time wherever tokens differ.
#[derive(Clone)]
pub(crate) struct BearerToken(Digest);

impl BearerToken {
    pub(crate) fn new(token: &str) -> Self {
        Self(digest(&SHA256, token.as_bytes()))
    }

    /// The token in the value of an `Authorization` header, if there is one.
    pub(crate) fn text_in(authorization: &[u8]) -> Option<&[u8]> {
        let (scheme, token) = authorization.split_at_checked(b"Bearer ".len())?;
        let token = token.trim_ascii();
        (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
    }

    /// Whether the value of an `Authorization` header carries the token.
    pub(crate) fn is_in(&self, authorization: Option<&[u8]>) -> bool {
        let Some(token) = authorization.and_then(Self::text_in) else { return false };
        let given = digest(&SHA256, token);
        let pairs = given.as_ref().iter().zip(self.0.as_ref());
        let difference = pairs.fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
        difference == 0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_token_is_accepted() {
        let token = BearerToken::new("secret");
        for (value, is_accepted) in [
            (Some("Bearer secret"), true),
            (Some("bearer  secret "), true),
            (Some("Bearer secre"), false),
            (Some("Bearer secrett"), false),
            (Some("Basic  secret"), false),
            (Some("secret"), false),
            (Some("Bearer "), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(token.is_in(value.map(str::as_bytes)), is_accepted, "{value:?}");
        }
        assert_eq!(format!("{token:?}"), "BearerToken(..)");
    }
}
