//! Log messages: the levels, and the filter by the client's level.

use serde_json::{Value, json};

use super::{Engine, Step};
use crate::rpc;

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

pub(super) fn is_level(level: &str) -> bool {
    LEVELS.contains(&level)
}

/// Returns whether a message of this level passes the threshold of a client.
fn passes_threshold(level: &str, threshold: &str) -> bool {
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    // An unknown level goes to every client, because clients have to cope with it.
    rank(level).is_none() || rank(level) >= rank(threshold)
}

/// Returns the steps that send the lines that pass the threshold; without a threshold, none.
pub(super) fn log_steps(logger: &str, lines: &[(String, Value)], threshold: Option<&str>) -> Vec<Step> {
    let heard = lines
        .iter()
        .filter(|(level, _)| threshold.is_some_and(|threshold| passes_threshold(level, threshold)));
    heard.map(|(level, data)| Step::Notify(log_notification(logger, level, data))).collect()
}

fn log_notification(logger: &str, level: &str, data: &Value) -> Value {
    let params = json!({"level": level, "logger": logger, "data": data});
    rpc::notification("notifications/message", params)
}

impl Engine {
    /// Sends a log message outside of any request, to each handshake session whose level admits it.
    /// Returns how many it reached.
    pub(crate) fn send_log_message(&self, level: &str, data: &Value) -> usize {
        let script = self.script();
        if !script.offers("logging") {
            return 0;
        }
        let params = json!({"level": level, "logger": script.name, "data": data});
        self.announce_to_sessions("notifications/message", &params, |session| {
            passes_threshold(level, session.log_level.as_deref().unwrap_or("debug"))
        })
    }
}
