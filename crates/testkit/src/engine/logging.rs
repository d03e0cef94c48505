//! Log messages: which levels there are, and who hears which.

use serde_json::{Value, json};

use super::{Engine, Step};
use crate::rpc;

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

pub(super) fn is_level(level: &str) -> bool {
    LEVELS.contains(&level)
}

/// Whether a message of this level reaches whoever asked for `threshold` and more.
fn reaches(level: &str, threshold: &str) -> bool {
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    // A level nobody knows goes to everybody: a client has to cope with it.
    rank(level).is_none() || rank(level) >= rank(threshold)
}

/// The steps that say these lines, as far as the threshold lets them; without one, none.
pub(super) fn steps(logger: &str, lines: &[(String, Value)], threshold: Option<&str>) -> Vec<Step> {
    let heard =
        lines.iter().filter(|(level, _)| threshold.is_some_and(|threshold| reaches(level, threshold)));
    heard.map(|(level, data)| Step::Say(message(logger, level, data))).collect()
}

fn message(logger: &str, level: &str, data: &Value) -> Value {
    let params = json!({"level": level, "logger": logger, "data": data});
    rpc::notification("notifications/message", params)
}

impl Engine {
    /// Logs out of the blue, to each handshake session whose level lets it. Gives the number reached.
    pub(crate) fn log(&self, level: &str, data: &Value) -> usize {
        let script = self.script();
        if !script.offers("logging") {
            return 0;
        }
        let params = json!({"level": level, "logger": script.name, "data": data});
        self.announce_in_sessions("notifications/message", &params, |session| {
            reaches(level, session.log_level.as_deref().unwrap_or("debug"))
        })
    }
}
