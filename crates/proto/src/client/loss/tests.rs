//! Tests of the verdict on session loss, over whole exchanges.

use bytes::Bytes;

use super::*;
use crate::wire::{Id, find_error};

mod decoys;
mod properties;
mod signatures;
mod texts;

/// The id of the request in every case.
const OWN_ID: u64 = 7;

/// An exchange as it is on the wire. The error is found in the body, as a driver would find it.
#[derive(Clone, Debug)]
struct Case {
    method: &'static str,
    session: bool,
    credentials: bool,
    status: u16,
    challenge: Vec<String>,
    body: Bytes,
    body_is_cut: bool,
}

fn post(status: u16, body: impl AsRef<[u8]>) -> Case {
    Case {
        method: "tools/call",
        session: true,
        credentials: false,
        status,
        challenge: Vec::new(),
        body: Bytes::copy_from_slice(body.as_ref()),
        body_is_cut: false,
    }
}

impl Case {
    fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    fn without_session(mut self) -> Self {
        self.session = false;
        self
    }

    fn cut(mut self) -> Self {
        self.body_is_cut = true;
        self
    }

    fn credentials(mut self) -> Self {
        self.credentials = true;
        self
    }

    fn challenge(mut self, challenge: &str) -> Self {
        self.challenge.push(challenge.to_owned());
        self
    }

    fn judge(&self) -> Verdict {
        let found = find_error(&self.body);
        judge(&Exchange {
            method: self.method,
            session: self.session,
            credentials: self.credentials,
            status: self.status,
            challenge: &self.challenge,
            body: BodyHead { bytes: &self.body, is_cut: self.body_is_cut },
            error: found.as_ref().map(|(_, error)| error),
            own_id: found
                .as_ref()
                .is_some_and(|(id, _)| id.as_ref().and_then(Id::as_request_number) == Some(OWN_ID)),
        })
    }
}

fn rpc(id: &str, code: i64, message: &str) -> String {
    let message = serde_json::to_string(message).unwrap();
    format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":{message}}},"id":{id}}}"#)
}

fn own_error(code: i64, message: &str) -> String {
    rpc("7", code, message)
}

fn unaddressed_error(code: i64, message: &str) -> String {
    rpc("null", code, message)
}

/// Compares exchanges with their expected verdicts.
fn check(rows: &[(&str, Case, Verdict)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(_, case, verdict)| case.judge() != *verdict)
        .map(|(name, case, verdict)| {
            let body = String::from_utf8_lossy(&case.body);
            format!("{name}: {:?} instead of {verdict:?}: {} {body}", case.judge(), case.status)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The verdict on a refusal without known wording, by its status.
fn verdict_without_wording(status: u16) -> Verdict {
    match status {
        400 | 409 | 422 | 500 => Verdict::Suspect(LossWording::None),
        401 => Verdict::Login,
        _ => Verdict::Answer,
    }
}
