//! Defines what is measured: the list of scenarios and their names.

use std::fmt;

/// Tools in the large list.
pub(crate) const LARGE_LIST: usize = 830;
/// Tools in the list of an ordinary server.
pub(crate) const SMALL_LIST: usize = 5;
/// Tools of a server among a hundred.
pub(crate) const HUNDRED_LIST: usize = 100;
/// Tools of a server behind a gateway.
pub(crate) const MEDIUM_LIST: usize = 10;
/// Lists held at once when memory is measured; enough to outweigh temporary allocations.
pub(crate) const LISTS_HELD: usize = 20;
/// Ports the server must listen on for the widest scenario.
pub(crate) const PORTS: usize = 50;

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Tool calls against one server, with a fixed number always in flight.
    Calls { wire: Wire, size: Size, lanes: usize },
    /// The large list, again and again.
    List,
    /// Time until this many servers are connected and their lists complete.
    Startup { servers: usize, tools: usize },
    /// What one large list costs while it is held.
    Memory,
    /// What an idle connection with its list costs in a process that has one to every port.
    Idle,
    /// Time until this many legacy servers are connected, for which an earlier process left
    /// negotiation records.
    OpenLegacy { servers: usize },
    /// As `OpenLegacy`, without records of an earlier process.
    OpenUnknown { servers: usize },
    /// Resident memory of `bowline connect` in front of one server.
    Relay,
}

/// How requests and replies travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    HttpJson,
    HttpSse,
    Stdio,
}

/// The length of the text in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Medium,
    Large,
}

// === impl Scenario ===

impl Scenario {
    /// Returns every scenario of a run. A quick run has those with a goal and a few more.
    pub(crate) fn all(quick: bool) -> Vec<Self> {
        let mut all = Vec::new();
        for wire in [Wire::HttpJson, Wire::HttpSse, Wire::Stdio] {
            for size in [Size::Small, Size::Medium, Size::Large] {
                let kept = match size {
                    Size::Small => true,
                    Size::Medium => false,
                    Size::Large => wire != Wire::HttpSse,
                };
                if kept || !quick {
                    all.extend([1, 64].map(|lanes| Self::Calls { wire, size, lanes }));
                }
            }
        }
        all.push(Self::List);
        let servers: &[usize] = if quick { &[10] } else { &[1, 10, PORTS] };
        all.extend(servers.iter().map(|&servers| Self::Startup { servers, tools: SMALL_LIST }));
        all.push(Self::Startup { servers: 10, tools: LARGE_LIST });
        all.extend([Self::Memory, Self::Idle, Self::OpenLegacy { servers: PORTS }]);
        all.extend([Self::OpenUnknown { servers: PORTS }, Self::Relay]);
        all
    }

    pub(crate) fn is_stdio(self) -> bool {
        matches!(self, Self::Calls { wire: Wire::Stdio, .. })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls { wire, size, lanes } => {
                let wire = match wire {
                    Wire::HttpJson => "http-json",
                    Wire::HttpSse => "http-sse",
                    Wire::Stdio => "stdio",
                };
                let size = match size {
                    Size::Small => "100B",
                    Size::Medium => "10KB",
                    Size::Large => "1MB",
                };
                write!(f, "{wire}/{size}/{lanes}")
            }
            Self::List => write!(f, "list/{LARGE_LIST}"),
            Self::Startup { servers, tools } => write!(f, "startup/{servers}x{tools}"),
            Self::Memory => write!(f, "memory/{LARGE_LIST}"),
            Self::Idle => write!(f, "idle/{PORTS}x{MEDIUM_LIST}"),
            Self::OpenLegacy { servers } => write!(f, "open-legacy/{servers}"),
            Self::OpenUnknown { servers } => write!(f, "open-unknown/{servers}"),
            Self::Relay => write!(f, "relay/{MEDIUM_LIST}"),
        }
    }
}

// === impl Size ===

impl Size {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Small => 100,
            Self::Medium => 10_000,
            // Under 1 MiB with its escapes, which is the largest event that every client here
            // accepts.
            Self::Large => 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_full_run_covers_every_combination_once() {
        let names: HashSet<String> = Scenario::all(false).iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 3 * 3 * 2 + 1 + 4 + 1 + 4);
        for name in ["http-json/100B/1", "stdio/1MB/64", "list/830", "startup/50x5", "startup/10x830"] {
            assert!(names.contains(name), "{name} missing from {names:?}");
        }
    }

    #[test]
    fn a_quick_run_is_part_of_a_full_one() {
        let full = Scenario::all(false);
        assert!(Scenario::all(true).iter().all(|s| full.contains(s)));
    }
}
