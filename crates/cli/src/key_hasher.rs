//! [`KeyHasher`]: the hash by which processes find out that they have the same configuration; and which
//! variables of the environment matter for that.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::hash::Hasher;

use bowline_transport::process::INHERITED_VARIABLES;
use ring::digest::{Context, SHA256};

/// Hashes what is written to it, with SHA-256. Derived implementations of `Hash` write each value with its length.
pub(crate) struct KeyHasher(Context);

impl Default for KeyHasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl KeyHasher {
    /// The whole hash, in hexadecimal digits.
    pub(crate) fn finish_hex(self) -> String {
        self.0.finish().as_ref().iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a string");
            text
        })
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.0.clone().finish();
        hash.as_ref().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    }
}

/// Whether servers inherit a variable.
pub(crate) fn is_inherited(name: &str) -> bool {
    INHERITED_VARIABLES.iter().any(|listed| match listed.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *listed,
    })
}

/// Whether a variable describes the terminal or the login, which no program on a pipe depends on.
/// With these, each terminal would have its own daemon.
pub(crate) fn differs_between_terminals(name: &str) -> bool {
    name == "TERM"
        || (name.starts_with("XDG_") && !["_HOME", "_DIR", "_DIRS"].iter().any(|end| name.ends_with(end)))
}

/// The variables of this process that a server depends on, sorted.
pub(crate) fn program_variables() -> Vec<(OsString, OsString)> {
    let matters = |name: &str| is_inherited(name) && !differs_between_terminals(name);
    let mut variables: Vec<_> =
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(matters)).collect();
    variables.sort();
    variables
}
