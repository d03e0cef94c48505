//! [`EventId`]: the id of an event, which names its stream and its number on that stream.

use std::fmt;

use super::StreamId;

/// The id of an event as a host sees it, such as `3-17`. It has a meaning only within its session,
/// so an id that another session guesses or steals is of no use to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    /// The stream on which the event was sent.
    pub stream: StreamId,
    /// The number of the event on its stream, from 1. The number 0 stands for the beginning.
    pub number: u64,
}

impl EventId {
    /// Reads an id. `None` unless it is written exactly as we write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        let id = Self { stream: StreamId(stream.parse().ok()?), number: number.parse().ok()? };
        // `+1-01` is the same pair of numbers, but nothing that we have ever sent.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream.0, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_others_are_refused() {
        for text in ["0-0", "0-1", "7-120", "18446744073709551615-3"] {
            assert_eq!(EventId::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "+1-1",
            "1-01",
            " 1-1",
            "1-1 ",
            "1-2-3",
            "a-b",
            "1-99999999999999999999",
        ] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }
}
