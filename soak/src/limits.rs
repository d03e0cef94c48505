//! The limits that both processes work with.

use std::time::Duration;

/// Longest silence within a call.
pub(crate) const IDLE_LIMIT: Duration = Duration::from_secs(3);
/// Longest duration of a call.
pub(crate) const TOTAL_LIMIT: Duration = Duration::from_secs(6);
/// How long a call waits for a server that is down, if its own limits are longer: only
/// `tools/list`.
pub(crate) const RECONNECT_WAIT: Duration = Duration::from_secs(10);
/// A call without an outcome after this time will never have one.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// How long opening a connection may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
