//! [`MetaKey`]: the syntax of `_meta` keys, and which of them the protocol reserves.
// MT-01, MT-02

use std::fmt;

use crate::wire::meta;

/// A key of `_meta`: an optional prefix of labels, such as `com.example/`, and a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetaKey(Box<str>);

/// Why a text is not a valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidMetaKey {
    /// A label of the prefix does not begin with a letter, does not end with a letter or digit, or
    /// contains something other than letters, digits and hyphens.
    Prefix,
    /// The name does not begin and end with a letter or digit, or contains something other than
    /// those and `-`, `_`, `.`.
    Name,
}

impl fmt::Display for InvalidMetaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "the prefix of a `_meta` key is made of labels such as `com.example`, before a `/`",
            Self::Name => "the name of a `_meta` key begins and ends with a letter or digit, with `-`, `_` and `.` between",
        })
    }
}

impl std::error::Error for InvalidMetaKey {}

impl MetaKey {
    /// Parses a key. Only a key with a prefix may have an empty name.
    pub fn parse(text: &str) -> Result<Self, InvalidMetaKey> {
        let (prefix, name) = split_prefix(text);
        if prefix.is_some_and(|prefix| !prefix.split('.').all(is_label)) {
            return Err(InvalidMetaKey::Prefix);
        }
        let unnamed = name.is_empty() && prefix.is_some();
        if !unnamed && !is_name(name) {
            return Err(InvalidMetaKey::Name);
        }
        Ok(Self(text.into()))
    }

    /// The whole key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The prefix before the slash, if there is one.
    pub fn prefix(&self) -> Option<&str> {
        split_prefix(&self.0).0
    }

    /// The name after the slash, or the whole key.
    pub fn name(&self) -> &str {
        split_prefix(&self.0).1
    }

    /// Whether the protocol reserves the key.
    ///
    /// Reserved are prefixes whose second label is `modelcontextprotocol` or `mcp`, and, by
    /// 2025-06-18, those in which such a label is followed by another. `progressToken` is set by
    /// the engine, so it is reserved too.
    pub fn is_reserved(&self) -> bool {
        let (Some(prefix), _) = split_prefix(&self.0) else { return &*self.0 == meta::PROGRESS_TOKEN };
        let mut labels = prefix.split('.').enumerate().peekable();
        while let Some((index, label)) = labels.next() {
            let owned = ["modelcontextprotocol", "mcp"].iter().any(|own| label.eq_ignore_ascii_case(own));
            if owned && (index == 1 || labels.peek().is_some()) {
                return true;
            }
        }
        false
    }
}

fn split_prefix(key: &str) -> (Option<&str>, &str) {
    key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name))
}

fn is_label(label: &str) -> bool {
    label.starts_with(|first: char| first.is_ascii_alphabetic())
        && label.ends_with(|last: char| last.is_ascii_alphanumeric())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.ends_with(|last: char| last.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mt_01_what_is_a_key() {
        for good in [
            "a",
            "traceparent",
            "0key9",
            "a.b_c-d",
            "com.example/key",
            "com.example/",
            "c0m.ex-ample9/a",
            "x/y",
            "com.example.deep.labels/k.v",
        ] {
            assert!(MetaKey::parse(good).is_ok(), "{good}");
        }
        for bad in ["/key", "1com/key", "com-/key", "-com/key", "com..example/key", ".com/key", "com./key"] {
            assert_eq!(MetaKey::parse(bad), Err(InvalidMetaKey::Prefix), "{bad}");
        }
        for bad in ["", "-a", "a-", "_a", "a_", ".a", "a.", "a b", "é", "com.example/-", "a/b/c", "a\n"] {
            assert_eq!(MetaKey::parse(bad), Err(InvalidMetaKey::Name), "{bad:?}");
        }
        for bad in ["com.ex_ample/a", "com.éxample/a", "com example/a"] {
            assert_eq!(MetaKey::parse(bad), Err(InvalidMetaKey::Prefix), "{bad}");
        }
        let key = MetaKey::parse("com.example/a.b").unwrap();
        assert_eq!((key.prefix(), key.name()), (Some("com.example"), "a.b"));
    }

    #[test]
    fn mt_02_what_is_the_protocols() {
        let reserved = |text| MetaKey::parse(text).unwrap().is_reserved();
        for owned in [
            "io.modelcontextprotocol/x",
            "dev.mcp/x",
            "com.mcp.tools/x",
            "org.modelcontextprotocol.api/x",
            "IO.ModelContextProtocol/x",
            // By 2025-06-18.
            "modelcontextprotocol.io/x",
            "mcp.dev/x",
            "api.modelcontextprotocol.org/x",
            "tools.mcp.com/x",
        ] {
            assert!(reserved(owned), "{owned}");
        }
        for free in ["com.example.mcp/x", "mcp/x", "com.example/x", "com.mcpx/x", "mcp", "com.example/mcp"] {
            assert!(!reserved(free), "{free}");
        }
        for ours in [
            meta::PROTOCOL_VERSION,
            meta::CLIENT_CAPABILITIES,
            meta::CLIENT_INFO,
            meta::SERVER_INFO,
            meta::LOG_LEVEL,
            meta::SUBSCRIPTION_ID,
            meta::PROGRESS_TOKEN,
        ] {
            assert!(reserved(ours), "{ours}");
        }
        // OT-01: trace context has no prefix, and callers may set it.
        assert!(!reserved("traceparent"));
    }
}
