//! The contract between the runner and a leg: the job it receives and the sample it returns.
//!
//! The job is the last command-line argument, as JSON; the sample is one line of JSON on stdout.
//! The scripts under `peers/` read and write the same formats.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a leg is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Job {
    /// Call `payload`, with `lanes` calls always in flight, and check the length of every result.
    Calls { endpoint: Endpoint, bytes: usize, lanes: usize, limits: Limits },
    /// Fetch the complete tool list again and again.
    Lists { url: String, tools: usize, limits: Limits },
    /// Connect to every server at once and fetch each one's complete tool list, from cold.
    Startup { urls: Vec<String>, tools: usize },
    /// Connect to every server, then hold one tool list of each.
    Memory { urls: Vec<String>, tools: usize },
    /// Connect to every server, and keep the connection and the tool list of each.
    Idle { urls: Vec<String>, tools: usize },
    /// Connect to every server at once. `negotiations` is a folder in which this library finds the
    /// negotiation records of an earlier process.
    Open {
        urls: Vec<String>,
        #[serde(default)]
        negotiations: Option<PathBuf>,
    },
    /// Put `bowline connect` in front of the server, initialize it and fetch its tool list.
    Relay { url: String, tools: usize },
    /// Call at a steady rate while faults are injected into the server, and report how each call
    /// ended. Prints `ready` on a line of its own when connected, and a [`CallLog`] instead of a
    /// sample.
    Steady(SteadyLoad),
}

/// Calls at a steady rate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SteadyLoad {
    pub(crate) url: String,
    /// Whether the server speaks HTTP+SSE and not Streamable HTTP.
    pub(crate) sse: bool,
    pub(crate) tool: String,
    pub(crate) arguments: serde_json::Value,
    /// Seconds from the start of one call to the start of the next, whatever becomes of them.
    pub(crate) every: f64,
    /// How many calls are made.
    pub(crate) calls: u32,
    /// Seconds after which a call counts as one without an outcome.
    pub(crate) limit: f64,
}

/// How each call of a steady load ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CallLog {
    pub(crate) revision: Option<String>,
    pub(crate) calls: Vec<CallTiming>,
}

/// One call: its begin and end, in seconds since 1970, and the reason if it failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CallTiming(pub(crate) f64, pub(crate) f64, pub(crate) Option<String>);

/// Where the server is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Endpoint {
    Http(String),
    /// A program and its arguments.
    Stdio(Vec<String>),
}

/// How long a leg may work. It stops at whichever bound comes first.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Seconds of work that do not count.
    pub(crate) warmup: f64,
    pub(crate) seconds: f64,
    pub(crate) max_calls: u64,
}

/// The result of a leg.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Calls answered, or servers started, or lists held.
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    /// User and system time of the client process, all threads. `None` if the system cannot tell.
    pub(crate) cpu_seconds: Option<f64>,
    /// Absent if no single call was timed.
    #[serde(default)]
    pub(crate) p50_us: Option<f64>,
    #[serde(default)]
    pub(crate) p99_us: Option<f64>,
    /// Peak resident memory of the client process.
    pub(crate) peak_rss: Option<u64>,
    /// Growth of resident memory per list held.
    #[serde(default)]
    pub(crate) bytes_per_list: Option<f64>,
    /// Growth of resident memory per connection and list held.
    #[serde(default)]
    pub(crate) bytes_per_server: Option<f64>,
    /// Resident memory of the relay process.
    #[serde(default)]
    pub(crate) relay_rss: Option<u64>,
    /// The protocol revision the client ended up speaking; the floor speaks a fixed one.
    #[serde(default)]
    pub(crate) revision: Option<String>,
}
