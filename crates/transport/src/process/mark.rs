//! The mark: an environment variable that all processes of one server carry.
//!
//! A process can leave its group (`setsid`) and its parent (a double fork), but it keeps its
//! environment. So every server is started with a variable of a unique value, and every process
//! that has it was started by that server. Linux shows a user the environment of that user's
//! processes. Other systems do not, or not reliably (macOS hides it for its own programs), so there
//! a process that left its group is not found.
//!
//! Accepted: a program that drops its environment escapes. This is also the way to leave a program
//! running on purpose: `env -u BOWLINE_OWNER my-daemon`. A process that carries the mark but is
//! detached is left alone as well ([`super::members`]).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The environment variable that identifies the server a process belongs to. Its value has no other
/// meaning.
///
/// A server that starts something which is meant to outlive it removes the variable from its
/// environment.
pub const MARK_VARIABLE: &str = "BOWLINE_OWNER";

/// The value that the processes of one server carry, and no other process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Mark(String);

impl Mark {
    /// Creates a unique mark. It need not be secret.
    pub(super) fn new() -> Self {
        Self(format!("{:032x}", fastrand::u128(..)))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Finds the mark in an environment block of the kernel: entries that end with a zero byte.
    #[cfg(target_os = "linux")]
    pub(super) fn from_environment(environment: &[u8]) -> Option<Self> {
        let mut entries = environment.split(|byte| *byte == 0);
        let value =
            entries.find_map(|entry| entry.strip_prefix(MARK_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
        Self::parse(str::from_utf8(value).ok()?)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Mark> for String {
    fn from(mark: Mark) -> Self {
        mark.0
    }
}

impl TryFrom<String> for Mark {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a mark")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_differ_and_read_back() {
        let (one, two) = (Mark::new(), Mark::new());
        assert_ne!(one, two);
        assert_eq!(Mark::parse(one.as_str()), Some(one));
        for bad in ["", "1", "../../../../../../../../../etc/xx", &"F".repeat(32), &"0".repeat(33)] {
            assert_eq!(Mark::parse(bad), None, "{bad}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_a_whole_entry_is_a_mark() {
        let mark = Mark::new();
        let of = |text: String| Mark::from_environment(text.as_bytes());
        assert_eq!(of(format!("A=1\0{MARK_VARIABLE}={mark}\0B=2\0")), Some(mark.clone()));
        assert_eq!(of(format!("A={MARK_VARIABLE}={mark}\0")), None);
        assert_eq!(of(format!("X{MARK_VARIABLE}={mark}\0")), None);
        assert_eq!(of(format!("{MARK_VARIABLE}={mark}0\0")), None);
        assert_eq!(of(format!("{MARK_VARIABLE}\0")), None);
    }
}
