//! Device authorization (RFC 8628): issuing codes, the verification page, and polling.

use std::time::Duration;

use serde_json::json;

use super::ask::{Ask, Outcome};
use super::authorize::{page, words};
use super::vault::Vault;
use super::{Core, authenticate, jwt};
use crate::SECRET;
use crate::sync::lock;

/// A device that waits for a person's decision.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) code: String,
    pub(super) user_code: String,
    pub(super) client: Option<String>,
    pub(super) scope: String,
    pub(super) resources: Vec<String>,
    until: Duration,
    interval: Duration,
    polled: Option<Duration>,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Approved(String),
    Denied,
    Spent,
}

/// The result of a poll.
pub(super) enum Answered {
    Pending,
    TooSoon,
    Denied,
    Expired,
    Spent,
    Approved(String),
}

pub(super) fn begin(core: &Core, ask: &Ask) -> Outcome {
    let script = core.script();
    let mut vault = lock(&core.vault);
    let client = match authenticate::client(core, ask, &mut vault) {
        Ok(Some(client)) => client,
        Ok(None) => return Outcome::error(400, "invalid_request", "client_id is missing"),
        Err(refusal) => return refusal,
    };
    let letters: String = jwt::random().chars().filter(char::is_ascii_alphabetic).take(8).collect();
    let (first, second) = letters.split_at(letters.len() / 2);
    let user_code = format!("{first}-{second}").to_ascii_uppercase();
    let device_code = format!("{SECRET}device-{}", jwt::random());
    let (interval, lifetime) =
        (Duration::from_millis(script.device_interval_ms), Duration::from_millis(script.device_lifetime_ms));
    let page = format!("{}{}/verify", ask.origin, script.path);
    vault.devices.push(Device {
        code: device_code.clone(),
        user_code: user_code.clone(),
        client: Some(client.id),
        scope: ask.field("scope").unwrap_or(&script.default_scope).into(),
        resources: ask.field("resource").map(words).unwrap_or_default(),
        until: core.now() + lifetime,
        interval,
        polled: None,
        state: State::Waiting,
    });
    Outcome::ok(json!({
        "device_code": device_code,
        "user_code": user_code,
        "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code={user_code}"),
        "expires_in": lifetime.as_secs(),
        "interval": interval.as_secs(),
    }))
}

/// Serves the page that a person opens on another machine, and records the decision.
pub(super) fn verify(core: &Core, ask: &Ask) -> Outcome {
    let user_code = ask.field("user_code").unwrap_or_default();
    let account = ask.field("account").map_or_else(|| core.script().account.clone(), str::to_owned);
    if ask.method == "GET" {
        let text = format!("A device asks for access. Code: {user_code}");
        return Outcome::Page(
            200,
            page(&ask.path, "Connect a device", &text, &[("user_code", user_code)], &account),
        );
    }
    let account = (ask.field("decision") == Some("approve")).then_some(account);
    let decided = lock(&core.vault).decide(user_code, account);
    let (status, text) = if decided { (200, "Done. Go back to your device.") } else { (404, "Unknown code") };
    Outcome::Page(status, format!("<!doctype html><title>Connect a device</title><h1>{text}</h1>"))
}

impl Vault {
    /// Records a person's decision; `None` denies. Returns false if no device waits with this code.
    pub(super) fn decide(&mut self, user_code: &str, account: Option<String>) -> bool {
        let waiting = |device: &&mut Device| device.user_code == user_code && device.state == State::Waiting;
        let Some(device) = self.devices.iter_mut().find(waiting) else { return false };
        device.state = account.map_or(State::Denied, State::Approved);
        true
    }
}

impl Device {
    pub(super) fn poll(&mut self, now: Duration) -> Answered {
        if now >= self.until {
            return Answered::Expired;
        }
        if self.polled.replace(now).is_some_and(|last| now < last + self.interval) {
            self.interval += Duration::from_secs(5);
            return Answered::TooSoon;
        }
        match self.state.clone() {
            State::Waiting => Answered::Pending,
            State::Denied => Answered::Denied,
            State::Spent => Answered::Spent,
            State::Approved(account) => {
                self.state = State::Spent;
                Answered::Approved(account)
            }
        }
    }
}
