//! The rule of evidence: what a refusal and the reply to a probe prove together.
//!
//! | what is known of the request | proves |
//! |---|---|
//! | no byte of it was sent, or the connection was refused | not executed |
//! | HTTP/2 said so: GOAWAY with a last stream below ours, REFUSED_STREAM | not executed |
//! | 404 or 410, read to its end, without an error for our id, on a session; once in a call | not executed |
//! | 307 or 308 within the origin: the request is to be made elsewhere | not executed |
//! | 401, or 403 with a challenge: by RFC 9110 the request has not been applied | not executed |
//! | 400 with -32020 from a modern server: headers are validated before a request is dispatched | not executed |
//! | refused, and a probe after it is refused with the same status, code and message | not executed |
//! | refused for its session for the sixth time in a call: its tool may end the session | nothing: `unknown` |
//! | refused, and the probe is answered | the refusal is the server's own answer |
//! | refused, and the probe is refused differently, or not answered | nothing: `unknown` |
//! | anything else, whatever it says | nothing: `unknown` |
//!
//! Whatever the reply, nothing proves that a request was not executed if the server sent a message
//! about it before: progress, a question on its stream, or the stream itself when it was resumed.
//! The sixth refusal of the session proves nothing either, so a server that loses every session at
//! once (`NotAffine`) leaves the label `unknown`.
//!
//! The transport knows the first two rows and sets the outcome of its faults by them; `retry`
//! decides by the rest. A proxy answers the same whatever happened behind it, and a server whose
//! every handler fails says the same of each. So 502, 504 and 52x prove nothing, and other 5xx only
//! where they mention the session.

use std::borrow::Cow;

use crate::client::keepalive::Probe;
use crate::client::loss::{LossWording, Verdict};
use crate::client::negotiation::Reply;
use crate::fault::Cause;

/// What the reply to a probe shows, weighed against the refusal that caused the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeConclusion {
    /// The request and the probe were refused in the same way, so the request was not executed.
    SameRefusal,
    /// Nothing is proved about the request; this is known of the session.
    Session(SessionLiveness),
}

/// The comparable part of a refusal, without ids and times.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    status: u16,
    code: Option<i64>,
    message: String,
}

/// The first probe after a refusal with this wording.
pub(super) fn first_probe(words: LossWording, list: Option<&'static str>) -> Probe {
    match (words, list) {
        (LossWording::Handshake, Some(list)) => Probe::List(list),
        _ => Probe::Ping,
    }
}

/// A refused request: its method, and the reply with its wording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal<'a> {
    pub(super) method: &'a str,
    pub(super) wording: LossWording,
    pub(super) reply: &'a Reply,
}

/// A probe and its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeReply<'a> {
    pub(super) probe: Probe,
    /// The method that the probe was sent with.
    pub(super) method: &'a str,
    pub(super) verdict: Verdict,
    pub(super) reply: &'a Reply,
}

/// What the reply to a probe shows about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionLiveness {
    /// The server still knows the session.
    Alive,
    /// The server lost the session.
    Lost,
    /// The probe does not settle it, but this one may.
    NeedsProbe(Probe),
    /// The server did not answer, or something else answered for it.
    Unanswered,
}

/// Assesses the session by the reply to a probe. `list` is the method of a list that the server
/// offers. `plainly` means that a refusal plainly mentioned the session, so an answered `ping`
/// alone is not believed.
pub fn assess_session(
    probe: Probe,
    verdict: Verdict,
    reply: &Reply,
    list: Option<&'static str>,
    plainly: bool,
) -> SessionLiveness {
    let confirm = list.filter(|_| probe == Probe::Ping).map(Probe::List);
    let lives = match confirm {
        // Some servers check sessions everywhere but in `ping`.
        Some(list) if plainly => SessionLiveness::NeedsProbe(list),
        _ => SessionLiveness::Alive,
    };
    match reply {
        Reply::Result(_) | Reply::Accepted => lives,
        Reply::Silence => SessionLiveness::Unanswered,
        Reply::Fault(fault) if fault.is_unreachable() || signature(reply, "").is_none() => {
            SessionLiveness::Unanswered
        }
        Reply::Error { .. } | Reply::Fault(_) => match verdict {
            Verdict::Lost => SessionLiveness::Lost,
            // The server may refuse `ping` alone.
            Verdict::Suspect(_) => confirm.map_or(SessionLiveness::Lost, SessionLiveness::NeedsProbe),
            Verdict::Login => SessionLiveness::Unanswered,
            // An error like any other is an answer.
            Verdict::Answer => lives,
        },
    }
}

/// Weighs the reply to a probe against the refusal that caused it.
pub(super) fn weigh_probe_reply(
    refusal: Refusal<'_>,
    answer: ProbeReply<'_>,
    list: Option<&'static str>,
) -> ProbeConclusion {
    if is_same_refusal(refusal, answer) {
        return ProbeConclusion::SameRefusal;
    }
    // A rate limit refuses a probe before anything looks at its session. It may be one of `ping` alone.
    if is_rate_limited(answer.reply) {
        let next = list.filter(|_| answer.probe == Probe::Ping).map(Probe::List);
        return ProbeConclusion::Session(
            next.map_or(SessionLiveness::Unanswered, SessionLiveness::NeedsProbe),
        );
    }
    let plainly = matches!(refusal.wording, LossWording::Plain | LossWording::Handshake);
    ProbeConclusion::Session(assess_session(answer.probe, answer.verdict, answer.reply, list, plainly))
}

fn is_same_refusal(refusal: Refusal<'_>, answer: ProbeReply<'_>) -> bool {
    let (Some(first), Some(second)) =
        (signature(refusal.reply, refusal.method), signature(answer.reply, answer.method))
    else {
        return false;
    };
    let can_prove = match first.status {
        502 | 504 | 520..600 => false,
        500.. => refusal.wording != LossWording::None,
        _ => true,
    };
    can_prove && !is_body_cut(refusal.reply) && first == second
}

fn is_rate_limited(reply: &Reply) -> bool {
    match reply {
        Reply::Error { status, .. } => *status == Some(429),
        Reply::Fault(fault) => matches!(fault.cause, Cause::Status { code: 429, .. }),
        Reply::Result(_) | Reply::Accepted | Reply::Silence => false,
    }
}

/// Whether only the beginning of the body is known, so two bodies that begin alike may end
/// differently.
fn is_body_cut(reply: &Reply) -> bool {
    match reply {
        Reply::Fault(fault) => fault.evidence.body_is_cut,
        _ => false,
    }
}

/// The signature of a refusal. `None` if the reply is not one.
fn signature(reply: &Reply, method: &str) -> Option<Signature> {
    match reply {
        Reply::Error { status, error, .. } => {
            let data = error.data.as_ref().map_or("", |data| data.as_str());
            Some(Signature {
                status: status.unwrap_or(200),
                code: Some(error.code),
                // The reason may be in the data alone.
                message: normalize(&format!("{} {data}", error.message), method),
            })
        }
        Reply::Fault(fault) => {
            let body = fault.evidence.body.as_deref().unwrap_or_default();
            let status = match &fault.cause {
                Cause::Status { code, .. } | Cause::LoginRequired { code, .. } => *code,
                // A success whose body is not a message.
                Cause::Protocol(_) if !body.is_empty() => 200,
                _ => return None,
            };
            Some(Signature { status, code: None, message: normalize(body, method) })
        }
        Reply::Result(_) | Reply::Accepted | Reply::Silence => None,
    }
}

/// Removes from `text` what differs between two equal refusals: ids (runs of eight or more
/// characters with a digit among them, and values named as an id), times of day, the method, and
/// the amount of white space. Other numbers stay, since an error number carries the meaning.
fn normalize(text: &str, method: &str) -> String {
    let text: Cow<'_, str> =
        if text.contains(method) { replace_word(text, method).into() } else { text.into() };
    let mut plain = String::with_capacity(text.len());
    let in_run = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | '+');
    let mut rest = &*text;
    let mut word = "";
    while let Some(first) = rest.chars().next() {
        let matches = in_run(first);
        let end = rest.find(|c| in_run(c) != matches).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        let core = run.trim_matches(|c: char| !c.is_alphanumeric());
        let named_id = word.len() <= MAX_ID_NAME_LEN && word.to_ascii_lowercase().ends_with("id");
        if matches && !core.is_empty() {
            word = core;
        }
        if matches && is_variable(core, named_id) {
            plain.push('#');
        } else if run.chars().all(char::is_whitespace) {
            plain.push(' ');
        } else {
            plain.push_str(run);
        }
    }
    plain.trim().to_owned()
}

/// Whether a run of letters and digits is likely to differ each time. `named_id`: the word before
/// it ends in `id`.
fn is_variable(run: &str, named_id: bool) -> bool {
    let digits = run.bytes().any(|byte| byte.is_ascii_digit());
    digits && (run.len() >= 8 || run.contains(':') || named_id)
}

/// Maximum length of a word, such as `requestId` or `session_id`, that names an id.
const MAX_ID_NAME_LEN: usize = 32;

/// Replaces `word` where it is a whole word.
fn replace_word(text: &str, word: &str) -> String {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word).filter(|_| !word.is_empty()) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        replaced.push_str(before);
        let alone = !is_letter(replaced.chars().last()) && !is_letter(after.chars().next());
        replaced.push_str(if alone { "@" } else { word });
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_times_and_the_method_are_set_aside() {
        for (one, two) in [
            ("Session 6f1c2a90-aaaa not found", "Session 77bbccdd-b not found"),
            ("no session for tools/call (id 7)", "no session for ping (id 12)"),
            ("at 2025-05-01T10:00:00.000+00:00:  gone\n", "at 2025-05-01T10:00:07.123+00:00: gone"),
            (r#"{"id":7,"error":"x"}"#, r#"{"id":8,"error":"x"}"#),
        ] {
            assert_eq!(normalize(one, "tools/call"), normalize(two, "ping"), "{one}");
        }
        for (one, two) in [
            ("Session not found", "Session expired"),
            ("tool x: Session not found", "Session not found"),
            ("mapping failed", "map failed"),
            (r#"{"error":"E1001"}"#, r#"{"error":"E2002"}"#),
            (r#"{"status":4001}"#, r#"{"status":4002}"#),
            ("stored, but the mail failed: code 11", "stored, but the mail failed: code 12"),
        ] {
            assert_ne!(normalize(one, "tools/call"), normalize(two, "ping"), "{one}");
        }
    }

    #[test]
    fn what_differs_is_replaced_by_a_mark() {
        for (text, method, expected) in [
            ("no session for tools/call (id 7)", "tools/call", "no session for @ (id #)"),
            ("ping: mapping ping", "ping", "@: mapping @"),
            ("pings of ping", "ping", "pings of @"),
            (" a \n\t b ", "", "a b"),
            ("abcdefg1 abcdef1 abcdefgh", "", "# abcdef1 abcdefgh"),
            ("at 1:2, a:b", "", "at #, a:b"),
            ("requestId: 7, 8", "", "requestId: #, 8"),
            ("ID=x, id : 7", "", "ID=x, id : #"),
            ("(1234.5678)", "", "(#)"),
        ] {
            assert_eq!(normalize(text, method), expected, "{text}");
        }
        // A word of more than 32 letters does not name an id.
        let long = "x".repeat(30);
        assert_eq!(normalize(&format!("{long}id 7"), ""), format!("{long}id #"));
        assert_eq!(normalize(&format!("x{long}id 7"), ""), format!("x{long}id 7"));
    }
}
