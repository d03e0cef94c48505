//! What a hook receives: the same facts for a command, a webhook or a terminal.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::HookEvent;
use bowline_proto::fault::Fault;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::events::{Event, Topic};

/// An event of a server, as hooks receive it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notice {
    /// What happened.
    pub event: HookEvent,
    /// The configured name of the server.
    pub server: Arc<str>,
    /// When it happened.
    pub at: SystemTime,
    /// The cause, if there is one: one line, bounded and without control characters. May contain
    /// text of the server.
    pub cause: Option<String>,
    /// The kind of the cause, as a stable identifier such as `refused`, `timeout` or
    /// `session_lost`.
    pub cause_kind: Option<&'static str>,
    /// Connection attempts since the connection was last ready.
    pub attempt: u32,
    /// How long the server was unavailable, once it is available again.
    pub outage: Option<Duration>,
    /// Number of events before this one that were dropped because the hook was too slow.
    pub missed: u64,
}

impl Notice {
    /// The notice for an event, if hooks receive events of its kind.
    pub fn from_event(server: &Arc<str>, event: &Event) -> Option<Self> {
        let life = match event {
            Event::Connection(life) => Some(life),
            Event::Notification(said) if said.topic() == Topic::ToolsChanged => None,
            Event::Notification(_)
            | Event::ListChanged(_)
            | Event::CallEnded(_)
            | Event::Stderr(_)
            | Event::Missed(_) => return None,
        };
        let fault = life.and_then(|life| life.cause.as_ref());
        Some(Self {
            event: life.map_or(HookEvent::ToolsChanged, |life| life.kind.into()),
            server: Arc::clone(server),
            at: life.map_or_else(SystemTime::now, |life| life.at),
            cause: fault.map(cause_line),
            cause_kind: fault.map(|fault| fault.cause.kind()),
            attempt: life.map_or(0, |life| life.attempt),
            outage: life.and_then(|life| life.outage),
            missed: 0,
        })
    }

    /// The time in UTC, to the millisecond: `2026-11-15T05:30:45.123Z`.
    pub fn time(&self) -> String {
        rfc3339(self.at)
    }

    /// The notice as one JSON object on one line.
    pub fn to_json(&self) -> String {
        let value: Value = json!({
            "event": self.event.as_str(),
            "server": clean(&self.server),
            "time": self.time(),
            "cause": self.cause,
            "cause_kind": self.cause_kind,
            "attempt": self.attempt,
            "outage_ms": self.outage.map(millis),
            "missed": self.missed,
        });
        value.to_string()
    }

    /// The main facts as environment variables. Unknown ones are not set.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        [
            ("BOWLINE_EVENT", Some(self.event.as_str().to_owned())),
            ("BOWLINE_SERVER", Some(clean(&self.server))),
            ("BOWLINE_TIME", Some(self.time())),
            ("BOWLINE_CAUSE", self.cause.clone()),
            ("BOWLINE_ATTEMPT", Some(self.attempt.to_string())),
            ("BOWLINE_OUTAGE_MS", self.outage.map(|outage| millis(outage).to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Maximum length of a text, in characters.
const MAX_TEXT_CHARS: usize = 500;

/// The cause with our own note. Response bodies and stderr are left out: they are long text of the
/// server and may contain secrets.
fn cause_line(fault: &Fault) -> String {
    clean(&fault.to_string())
}

/// Makes a bounded line in which nothing ends a variable, a log line or a color sequence.
fn clean(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == MAX_TEXT_CHARS {
            out.push('…');
            break;
        }
        match c {
            '"' | '\'' | '\\' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn rfc3339(at: SystemTime) -> String {
    // A time outside the calendar is shown as the epoch.
    let stamp = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{stamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_proto::fault::Cause;

    use crate::events::{ConnectionEvent, ConnectionEventKind, Notification};

    fn life(cause: Option<Fault>) -> Event {
        Event::Connection(ConnectionEvent {
            kind: ConnectionEventKind::SessionLost,
            server: Arc::from("rope"),
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_792_043_445_007),
            cause,
            attempt: 2,
            outage: Some(Duration::from_micros(1_500_900)),
        })
    }

    fn notice(event: &Event) -> Notice {
        Notice::from_event(&Arc::from("rope"), event).unwrap()
    }

    #[test]
    fn json_and_variables_say_the_same() {
        let notice = notice(&life(Some(Fault::new(Cause::SessionLost).with_note("HTTP status 404"))));
        let json: Value = serde_json::from_str(&notice.to_json()).unwrap();
        assert_eq!(
            json,
            json!({
                "event": "session_lost",
                "server": "rope",
                "time": "2026-10-15T05:50:45.007Z",
                "cause": "the server lost the session: HTTP status 404",
                "cause_kind": "session_lost",
                "attempt": 2,
                "outage_ms": 1500,
                "missed": 0,
            })
        );
        let variables: Vec<_> = notice.variables().collect();
        assert_eq!(
            variables,
            [
                ("BOWLINE_EVENT", "session_lost"),
                ("BOWLINE_SERVER", "rope"),
                ("BOWLINE_TIME", "2026-10-15T05:50:45.007Z"),
                ("BOWLINE_CAUSE", "the server lost the session: HTTP status 404"),
                ("BOWLINE_ATTEMPT", "2"),
                ("BOWLINE_OUTAGE_MS", "1500"),
            ]
            .map(|(name, value)| (name, value.to_owned()))
        );
    }

    #[test]
    fn a_cause_is_bounded_and_inert() {
        let hostile = format!("a\nb\0c\x1b[2J\u{202e}\"{}", "x".repeat(10_000));
        let notice = notice(&life(Some(Fault::new(Cause::Cut).with_note(hostile))));
        let cause = notice.cause.unwrap();
        assert!(cause.starts_with("connection lost: a\\nb\\0c\\u{1b}[2J\\u{202e}\"xxx"), "{cause}");
        assert!(!cause.contains(char::is_control) && cause.chars().count() < MAX_TEXT_CHARS + 50);
    }

    #[test]
    fn response_bodies_and_stderr_are_left_out() {
        let fault = Fault::new(Cause::Cut).with_body(b"hunter2").with_stderr(vec!["hunter2".to_owned()]);
        let notice = notice(&life(Some(fault)));
        assert!(!notice.to_json().contains("hunter2"));
    }

    #[test]
    fn a_changed_list_of_tools_is_told_and_no_other_notification() {
        let said = |method: &str| {
            Notice::from_event(&Arc::from("rope"), &Event::Notification(Notification::new(method, None)))
        };
        assert_eq!(said("notifications/tools/list_changed").unwrap().event, HookEvent::ToolsChanged);
        assert_eq!(said("notifications/prompts/list_changed"), None);
    }
}
