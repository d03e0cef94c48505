//! The revisions of the protocol that we speak, and to which era each belongs.

use std::fmt;

/// A published revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// The first: HTTP+SSE.
    V2024_11_05,
    /// Streamable HTTP, batches.
    V2025_03_26,
    /// Version header, elicitation, structured output.
    V2025_06_18,
    /// URL elicitation, polling streams, experimental tasks.
    V2025_11_25,
    /// Stateless.
    V2026_07_28,
}

/// Which of the two protocols a revision is. They share method names and little else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Handshake, sessions, requests from the server.
    Legacy,
    /// Every request stands for itself.
    Modern,
}

impl Revision {
    /// All, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// The newest with a handshake: what `initialize` offers (LC-02).
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest without: what a probe asks for.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// As it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that name, if we speak it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// Its era.
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

    /// Whether HTTP requests carry `MCP-Protocol-Version` once this is agreed (HL-01, HM-01).
    pub const fn has_version_header(self) -> bool {
        !matches!(self, Self::V2024_11_05 | Self::V2025_03_26)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
