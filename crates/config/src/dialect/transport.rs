//! Owns how the transport of a server is written.

use serde_json::json;

use super::fields::{Fields, Style};
use crate::keys::ValueKind;
use crate::problem::ProblemKind;
use crate::raw::RawTransport;
use crate::report::{Finding, LocatedValue, Location};
use crate::suggest;
use crate::tree::Node;

impl ValueKind for RawTransport {
    type Value = Self;
    const FORM: &str = "\"stdio\", \"http\" or \"sse\"";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
        let LocatedValue { value, place } = read.string(node, place)?;
        let known = match read.style {
            Style::Strict => Self::ALL.into_iter().find(|(name, _)| *name == value).map(|(_, known)| known),
            Style::Lenient => hosts_word(&value),
        };
        if let Some(known) = known {
            return Some(LocatedValue::new(known, place));
        }
        let mut finding = Finding::new(ProblemKind::InvalidValue, format!("must be {}", Self::FORM));
        if read.style == Style::Strict {
            finding.hint = suggest::closest(&value, Self::ALL.map(|(name, _)| name))
                .map(|meant| format!("did you mean \"{meant}\"?"));
        } else if matches!(squeeze(&value).as_str(), "ws" | "websocket") {
            let message = "WebSocket is not a transport of the protocol";
            finding = Finding::new(ProblemKind::Unsupported, message);
        }
        read.report.error(&place, finding);
        None
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "string", "enum": Self::ALL.map(|(name, _)| name) })
    }
}

/// Maps a host's word for a transport to ours.
fn hosts_word(word: &str) -> Option<RawTransport> {
    Some(match squeeze(word).as_str() {
        "stdio" | "local" => RawTransport::Stdio,
        "http" | "streamablehttp" => RawTransport::Http,
        "sse" => RawTransport::Sse,
        "remote" => RawTransport::Remote,
        _ => return None,
    })
}

/// Drops case and punctuation, in which hosts differ.
pub(super) fn squeeze(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
