//! Device authorization (RFC 8628): issuing codes, the verification page, and polling.

use std::time::Duration;

use serde_json::json;

use super::authorize::{form_page, split_words};
use super::request::{AuthRequest, EndpointResponse};
use super::vault::Vault;
use super::{AuthCore, authenticate, jwt};
use crate::SECRET_PREFIX;

/// How long a device code is valid.
const CODE_LIFETIME: Duration = Duration::from_secs(600);

/// A device that waits for a person's decision.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) code: String,
    pub(super) user_code: String,
    pub(super) client: Option<String>,
    pub(super) scope: String,
    pub(super) resources: Vec<String>,
    expires_at: Duration,
    interval: Duration,
    last_poll: Option<Duration>,
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
pub(super) enum DevicePollResult {
    Pending,
    TooSoon,
    Denied,
    Expired,
    Spent,
    Approved(String),
}

pub(super) fn start_device_authorization(core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    let script = core.script();
    let mut vault = core.vault.lock();
    let client = match authenticate::authenticate_client(core, request, &mut vault) {
        Ok(Some(client)) => client,
        Ok(None) => return EndpointResponse::error(400, "invalid_request", "client_id is missing"),
        Err(refusal) => return refusal,
    };
    let letters: String = jwt::random_text().chars().filter(char::is_ascii_alphabetic).take(8).collect();
    let (first, second) = letters.split_at(letters.len() / 2);
    let user_code = format!("{first}-{second}").to_ascii_uppercase();
    let device_code = format!("{SECRET_PREFIX}device-{}", jwt::random_text());
    let interval = Duration::from_millis(script.device_interval_ms);
    let page = format!("{}{}/verify", request.origin, script.path);
    vault.devices.push(Device {
        code: device_code.clone(),
        user_code: user_code.clone(),
        client: Some(client.id),
        scope: request.field("scope").unwrap_or_default().into(),
        resources: request.field("resource").map(split_words).unwrap_or_default(),
        expires_at: core.now() + CODE_LIFETIME,
        interval,
        last_poll: None,
        state: State::Waiting,
    });
    EndpointResponse::ok(json!({
        "device_code": device_code,
        "user_code": user_code,
        "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code={user_code}"),
        "expires_in": CODE_LIFETIME.as_secs(),
        "interval": interval.as_secs(),
    }))
}

/// Serves the page that a person opens on another machine, and records the decision.
pub(super) fn handle_verification(core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    let user_code = request.field("user_code").unwrap_or_default();
    let account = request.field("account").map_or_else(|| core.script().account.clone(), str::to_owned);
    if request.method == "GET" {
        let text = format!("A device asks for access. Code: {user_code}");
        return EndpointResponse::Html(
            200,
            form_page(&request.path, "Connect a device", &text, &[("user_code", user_code)], &account),
        );
    }
    let account = (request.field("decision") == Some("approve")).then_some(account);
    let decided = core.vault.lock().decide_device(user_code, account);
    let (status, text) = if decided { (200, "Done. Go back to your device.") } else { (404, "Unknown code") };
    EndpointResponse::Html(status, format!("<!doctype html><title>Connect a device</title><h1>{text}</h1>"))
}

impl Vault {
    /// Records a person's decision; `None` denies. Returns false if no device waits with this code.
    pub(super) fn decide_device(&mut self, user_code: &str, account: Option<String>) -> bool {
        let waiting = |device: &&mut Device| device.user_code == user_code && device.state == State::Waiting;
        let Some(device) = self.devices.iter_mut().find(waiting) else { return false };
        device.state = account.map_or(State::Denied, State::Approved);
        true
    }
}

impl Device {
    pub(super) fn poll(&mut self, now: Duration) -> DevicePollResult {
        if now >= self.expires_at {
            return DevicePollResult::Expired;
        }
        if self.last_poll.replace(now).is_some_and(|last| now < last + self.interval) {
            self.interval += Duration::from_secs(5);
            return DevicePollResult::TooSoon;
        }
        match self.state.clone() {
            State::Waiting => DevicePollResult::Pending,
            State::Denied => DevicePollResult::Denied,
            State::Spent => DevicePollResult::Spent,
            State::Approved(account) => {
                self.state = State::Spent;
                DevicePollResult::Approved(account)
            }
        }
    }
}
