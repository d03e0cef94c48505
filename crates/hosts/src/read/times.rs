//! Reads lengths of time, which hosts write in units of their own.

use bowline_config::tree::{Key, Node, Value};

use super::fields::number;
use super::findings::Findings;
use super::server_entry::ServerEntry;

/// Reads the times of a newer file of opencode, which are whole numbers of milliseconds.
pub(super) fn read_opencode_times(entry: &mut ServerEntry, times: &[(Key, Node)], found: &mut Findings) {
    for (key, node) in times {
        let own = match (key.name.as_str(), &node.value) {
            ("startup", Value::Number(_)) => "connect_timeout",
            ("request", Value::Number(_)) => "timeout",
            (other, _) => {
                found.note(format!("its `timeout.{other}` cannot be read"));
                continue;
            }
        };
        set_time(entry, own, &node.value, 1.0, found);
    }
}

/// Sets a length of time that a host counts in units of this many milliseconds.
pub(super) fn set_time(
    entry: &mut ServerEntry,
    key: &'static str,
    value: &Value,
    unit: f64,
    found: &mut Findings,
) {
    let millis = number(value).map(|number| (number * unit).round());
    let Some(millis) = millis.filter(|millis| *millis >= 1.0) else {
        // Many hosts take zero for their default, or for no limit at all.
        if number(value) != Some(0.0) {
            found.note(format!("its `{key}` cannot be read"));
        }
        return;
    };
    let millis = if millis > MAX_MILLIS {
        found.note(format!("its `{key}` is limited to 24 hours"));
        MAX_MILLIS
    } else {
        millis
    };
    let time = if millis % 1000.0 == 0.0 { format!("{}s", millis / 1000.0) } else { format!("{millis}ms") };
    entry.times.retain(|(known, _)| *known != key);
    entry.times.push((key, time));
}

/// A day, which is the longest time that an entry may have.
const MAX_MILLIS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;
