//! Owns the rule that a configured secret cannot be printed by accident.

use std::fmt;

use url::Url;
use zeroize::Zeroize as _;

/// A value that may be a credential: an environment variable or a header.
///
/// `Debug` prints `[redacted]`; there is no `Display` and no serialization. The text leaves only
/// through [`Secret::expose`], so every use can be found by that name. Its memory is overwritten
/// when it is dropped; copies made of the exposed text are not.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value itself. Never pass it to a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

/// Implements `Debug` for a struct. Every field is named, so that none is forgotten; the value shown
/// for one may be another than its own.
macro_rules! redacted_debug {
    ($Type:ident { $($field:ident $(= $shown:expr)?),+ $(,)? }) => {
        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let Self { $($field),+ } = self;
                f.debug_struct(stringify!($Type))
                    $(.field(stringify!($field), &$crate::secret::redacted_debug!(@shown $field $($shown)?)))+
                    .finish()
            }
        }
    };
    (@shown $field:ident) => { $field };
    (@shown $field:ident $shown:expr) => { $shown };
}

pub(crate) use redacted_debug;

/// What is shown in place of a value.
pub(crate) struct RedactedText(String);

impl RedactedText {
    /// Shows the origin of a URL only: people put keys into paths and queries.
    pub(crate) fn url(url: &Url) -> Self {
        Self(format!("{}/[redacted]", url.origin().ascii_serialization()))
    }

    /// Shows the number of arguments only: people pass keys in them.
    pub(crate) fn args(args: &[String]) -> Self {
        Self(format!("[{} redacted]", args.len()))
    }
}

impl fmt::Debug for RedactedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_redacted_and_comparison_is_by_value() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(secret, Secret::from("hunter2"));
        assert_ne!(secret, Secret::from("hunter3"));
    }
}
