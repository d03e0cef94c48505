//! Owns the validated form of `[elicitation]`: how a server's elicitation is answered.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;

use crate::sampling::UnknownWord;

/// How elicitations are answered. No answer ever contains anything that the person did not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
pub enum ElicitationPolicy {
    /// The person is asked. If nobody can be asked, the server is told that the person declines.
    #[default]
    Ask,
    /// The person is not asked, and the server is told that they decline.
    Decline,
    /// The person is not asked, and the server is told that the elicitation was canceled.
    Cancel,
}

impl ElicitationPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Ask, Self::Decline, Self::Cancel];

    /// Returns its name in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl FromStr for ElicitationPolicy {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|policy| policy.as_str() == word);
        known.ok_or(UnknownWord("\"ask\", \"decline\" or \"cancel\""))
    }
}

impl fmt::Display for ElicitationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for policy in ElicitationPolicy::ALL {
            assert_eq!(policy.as_str().parse(), Ok(policy));
            assert_eq!(policy.to_string(), policy.as_str());
        }
        let unknown = "accept".parse::<ElicitationPolicy>().unwrap_err();
        assert_eq!(unknown.to_string(), "must be \"ask\", \"decline\" or \"cancel\"");
    }
}
