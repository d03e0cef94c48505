//! [`Profile`]: what servers may know of a host when they list.

use std::fmt;

use bowline::Json;
use bowline_proto::stable_hash::StableHash;

/// What servers may know of a host when they list: a hash of its capabilities and its name. Servers
/// list some tools only for hosts that can answer what those tools ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Profile(u32);

impl Profile {
    /// The profile of a host with these capabilities and this `Implementation`. Its version does
    /// not count.
    pub fn new(capabilities: &Json, client_info: &Json) -> Self {
        let name = client_info.member("name");
        let mut hash = StableHash::new();
        hash.add(capabilities.as_bytes());
        hash.add(name.as_ref().map_or(b"", Json::as_bytes));
        Self(hash.to_u32())
    }
}

/// Hexadecimal digits.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}
