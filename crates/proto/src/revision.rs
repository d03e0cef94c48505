//! The supported protocol revisions, and the era of each.

use std::fmt;

use crate::named::named;

named! {
    /// A published revision of the protocol. The oldest comes first.
    #[non_exhaustive]
    pub enum Revision {
        /// The first revision, with HTTP+SSE.
        V2024_11_05 = "2024-11-05",
        /// Adds Streamable HTTP and batches.
        V2025_03_26 = "2025-03-26",
        /// Adds the version header, elicitation and structured output; removes batches.
        V2025_06_18 = "2025-06-18",
        /// Adds URL elicitation, polling streams and experimental tasks.
        V2025_11_25 = "2025-11-25",
        /// The stateless revision.
        V2026_07_28 = "2026-07-28",
    }
}

/// The era of a revision. The two eras share method names and little else.
///
/// Complete: a revision has a handshake or it has none, and code that speaks the protocol must
/// handle both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Up to 2025-11-25: handshake, sessions, server requests.
    Legacy,
    /// From 2026-07-28 on: stateless, every request is self-contained.
    Modern,
}

impl Revision {
    // LC-02
    /// The newest legacy revision, which `initialize` offers.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest modern revision, which a probe requests.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// The revision of that name, if it is supported.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// The era of the revision.
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
        }
    }

    /// The newest revision of `era` among `names`.
    pub fn newest_of<'a>(era: Era, names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        names.into_iter().filter_map(Self::parse).filter(|revision| revision.era() == era).max()
    }

    /// Whether HTTP requests carry `MCP-Protocol-Version` once this revision is agreed.
    // HL-01, HM-01
    pub const fn has_version_header(self) -> bool {
        !matches!(self, Self::V2024_11_05 | Self::V2025_03_26)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_compare_by_age() {
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
        }
        assert_eq!(Revision::parse("2027-01-01"), None);
        let names = ["2026-07-28", "1999-01-01", "2025-06-18", "2024-11-05"];
        assert_eq!(Revision::newest_of(Era::Legacy, names), Some(Revision::V2025_06_18));
        assert_eq!(Revision::newest_of(Era::Modern, ["2025-06-18"]), None);
    }
}
