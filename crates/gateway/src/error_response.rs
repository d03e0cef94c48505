//! Builds the error responses for the host when there is no response of the server to pass on.

use std::time::{Duration, Instant};

use bowline::auth::missing_scopes;
use bowline::types::{code, method};
use bowline::{
    Cause, Client, Era, Error, ErrorKind, Execution, Fault, Json, Misbehavior, Revision, RpcError, Status,
};
use bowline_proto::server::UNREACHABLE;
use bowline_proto::server::session::out_of_order;
use serde_json::{Map, Value, json};

/// Returns the command that a person runs to log in with these scopes in addition to the granted
/// ones, or `None` if a login cannot help.
pub(crate) type LoginCommand<'a> = dyn Fn(&[String]) -> Option<String> + Send + Sync + 'a;

/// State of the connection when a call has failed.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionState<'a> {
    pub(crate) status: &'a Status,
    /// How long the server has been unreachable, if it is.
    pub(crate) outage: Option<Duration>,
    /// How long a call waits for an unreachable server.
    pub(crate) reconnect_wait: Duration,
    /// What a person can raise for that to be longer, if there is such a setting.
    pub(crate) reconnect_setting: Option<&'a str>,
    pub(crate) login_command: Option<&'a LoginCommand<'a>>,
}

impl<'a> ConnectionState<'a> {
    /// The state of the connection of `client`, whose status is `status`.
    pub(crate) fn of(
        client: &Client,
        status: &'a Status,
        (reconnect_wait, reconnect_setting): (Duration, Option<&'a str>),
        login_command: Option<&'a LoginCommand<'a>>,
    ) -> Self {
        let health = client.health();
        let outage = match (health.connected_since, health.last_fault) {
            (None, Some((since, _))) => Some(since.elapsed().unwrap_or_default()),
            _ => None,
        };
        Self { status, outage, reconnect_wait, reconnect_setting, login_command }
    }

    /// The state when nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            status: &Status::Idle,
            outage: None,
            reconnect_wait: Duration::ZERO,
            reconnect_setting: None,
            login_command: None,
        }
    }
}

/// Maps the error of a call to an error response. An error that the server sent passes unchanged.
pub(crate) fn from_error(error: &Error, standing: &ConnectionState<'_>) -> RpcError {
    match error.kind() {
        ErrorKind::Server(error) | ErrorKind::Declined(error) => error.clone(),
        ErrorKind::Fault(fault) => from_fault(error.server(), fault, standing),
        ErrorKind::NotOffered(_) => RpcError::new(code::METHOD_NOT_FOUND, error.to_string()),
        _ => RpcError::new(code::INVALID_PARAMS, error.to_string()),
    }
}

/// Describes a fault, for a person and for a machine. Text of the server is left out: a body or a
/// line of stderr can contain anything, and would end up in the context of a model.
pub(crate) fn from_fault(server: &str, fault: &Fault, standing: &ConnectionState<'_>) -> RpcError {
    let (execution, told) = match fault.execution {
        Execution::NotExecuted => ("not_executed", "the request was not executed"),
        Execution::Unknown => ("unknown", "the server may have executed the request"),
    };
    let mut facts = Map::new();
    facts.insert("server".into(), server.into());
    facts.insert("cause".into(), fault.cause.kind().into());
    facts.insert("execution".into(), execution.into());
    if let Status::BackingOff { until, .. } = standing.status {
        let wait = until.saturating_duration_since(Instant::now());
        facts.insert("retry_in".into(), rounded_seconds(wait));
    }
    let described = describe_fault(fault);
    let what = match described.strip_prefix(&Cause::SessionLost.to_string()) {
        Some(detail) => format!("`{server}` lost the session{detail}"),
        None => format!("{}: {described}", message_lead(server, fault)),
    };
    let mut message = format!("bowline: {what} ({told})");
    if let Some(away) = standing.outage
        && fault.execution == Execution::NotExecuted
        && fault.is_unreachable()
    {
        facts.insert("away".into(), rounded_seconds(away));
        facts.insert("reconnect_wait".into(), rounded_seconds(standing.reconnect_wait));
        let (away, wait) = (rounded_seconds(away), rounded_seconds(standing.reconnect_wait));
        message = format!(
            "{message}; it has been away for {away} s, and a call waits {wait} s for it to come back"
        );
        if let Some(setting) = standing.reconnect_setting {
            message = format!("{message}: raise {setting} if it needs longer");
        }
    }
    if let Some(scopes) = scopes_to_add(fault) {
        if !scopes.is_empty() {
            facts.insert("scopes".into(), json!(scopes));
        }
        if let Some(command) = standing.login_command.and_then(|login| login(&scopes)) {
            // A model that reads this cannot log in, but it can say who can.
            message = format!("{message}; a person has to run `{command}`");
            facts.insert("login".into(), command.into());
        }
    }
    RpcError { code: UNREACHABLE, message, data: Json::encode(&json!({ "bowline": facts })).ok() }
}

/// The beginning of the message: what the server did, if it did anything.
fn message_lead(server: &str, fault: &Fault) -> String {
    match &fault.cause {
        Cause::Status { .. } => format!("`{server}` answered with an error"),
        Cause::LoginRequired { .. } | Cause::Redirect { .. } => format!("`{server}` refused the request"),
        Cause::Protocol(Misbehavior::NoAnswer) => format!("no answer from `{server}`"),
        Cause::Protocol(_) => format!("the answer of `{server}` cannot be used"),
        Cause::NoCommonVersion { .. }
        | Cause::NotAffine
        | Cause::Loop
        | Cause::Spawn(_)
        | Cause::StoreUnavailable
        | Cause::HeadersCommand
        | Cause::PlainHttp
        | Cause::LoginUnavailable => format!("`{server}` cannot be used"),
        _ if fault.execution == Execution::NotExecuted => format!("`{server}` cannot be reached"),
        _ => format!("no answer from `{server}`"),
    }
}

fn describe_fault(fault: &Fault) -> String {
    if let Cause::Redirect { .. } = fault.cause {
        // The location may contain a secret.
        return "it redirects to another address".to_owned();
    }
    // The time of the next attempt is in `data`, with its current value.
    let mut fault = fault.clone();
    fault.evidence.next_step = None;
    fault.to_string()
}

/// The response to a request that finds no room to wait.
pub(crate) fn too_many_requests(server: &str) -> RpcError {
    let message = format!(
        "bowline: too many requests to `{server}` are under way (the request was not executed); send it again when \
         others have been answered"
    );
    let facts = json!({ "bowline": { "server": server, "cause": "busy", "execution": "not_executed" } });
    RpcError { code: UNREACHABLE, message, data: Json::encode(&facts).ok() }
}

/// The response to a request for what may be of a server whose lists were never known, and why. `error`: what is said
/// if there is no such server.
pub(crate) fn may_be_of(server: &str, why: &str, error: &RpcError) -> RpcError {
    let message = format!(
        "bowline: {}; it may be of `{server}`, whose lists are not known: {why} (the request was not executed)",
        error.message
    );
    let facts = json!({ "bowline": { "server": server, "cause": "unlisted", "execution": "not_executed" } });
    RpcError { code: UNREACHABLE, message, data: Json::encode(&facts).ok() }
}

/// The scopes that a login would have to add, possibly none. `None` if no login would help.
pub(crate) fn scopes_to_add(fault: &Fault) -> Option<Vec<String>> {
    match &fault.cause {
        Cause::LoginRequired { code: 403, challenge } => missing_scopes(challenge),
        Cause::LoginRequired { .. } => Some(Vec::new()),
        _ => None,
    }
}

/// The error for a call that was open when an earlier process ended.
pub(crate) fn interrupted() -> RpcError {
    let message =
        "bowline: bowline was restarted during the call (the server may have executed it)".to_owned();
    let data = Json::parse(r#"{"bowline":{"cause":"closed","execution":"unknown"}}"#);
    RpcError { code: UNREACHABLE, message, data: Some(data.expect("it is JSON")) }
}

/// The response to a request that is open at a server which is there and answers nothing.
pub(crate) fn hung(server: &str) -> RpcError {
    let message = format!(
        "bowline: `{server}` is running and does not answer (the server may have executed the request); if it was \
         stopped, continue it, or end it: it is started again"
    );
    let facts = json!({ "bowline": { "server": server, "cause": "hung", "execution": "unknown" } });
    RpcError { code: UNREACHABLE, message, data: Json::encode(&facts).ok() }
}

/// The response to a request for the result of a task that nobody waits for any more. A host that comes back late
/// reads it.
pub(crate) fn abandoned() -> RpcError {
    let message = "bowline: the host was not connected, so the result was not waited for; request it again";
    let data = Json::parse(r#"{"bowline":{"cause":"closed","execution":"not_executed"}}"#);
    RpcError { code: UNREACHABLE, message: message.to_owned(), data: Some(data.expect("it is JSON")) }
}

/// The response to a request that came with an `initialize` which failed.
pub(crate) fn initialize_failed() -> RpcError {
    out_of_order("initialize failed; say it again")
}

/// The response to a request of a host whose view is no longer configured.
pub(crate) fn view_removed(view: &str) -> RpcError {
    let message = format!(
        "bowline: the view `{view}` was removed from the configuration (the request was not executed)"
    );
    let facts = json!({ "bowline": { "cause": "view_removed", "execution": "not_executed" } });
    RpcError { code: UNREACHABLE, message, data: Json::encode(&facts).ok() }
}

/// The response to a server request that the host did not answer in time.
pub(crate) fn host_timeout() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the host did not answer in time")
}

/// The response to a server request that belongs to a call which the host has canceled.
pub(crate) fn call_canceled() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the host has canceled the call")
}

/// The response to a server request whose host has left.
pub(crate) fn host_left() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the host has left")
}

/// The response to a server request that is one too many.
pub(crate) fn too_many_questions() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "too many questions wait for hosts, or were asked by one call")
}

/// The response to a request that failed for a reason of our own.
pub(crate) fn internal_error() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "bowline: the request failed")
}

/// The response to the retry of a call that was given up, because its host took too long to answer.
pub(crate) fn input_timeout() -> RpcError {
    let why = "the call was given up because its host took too long to provide the input";
    lost_call("input_timeout", why)
}

/// The response to the retry of a call that another process had begun.
pub(crate) fn call_lost() -> RpcError {
    lost_call("restarted", "bowline was restarted while the call waited for the input")
}

fn lost_call(cause: &str, why: &str) -> RpcError {
    let message = format!("bowline: {why} (the server may have executed the request)");
    let facts = json!({ "bowline": { "cause": cause, "execution": "unknown" } });
    RpcError { code: UNREACHABLE, message, data: Json::encode(&facts).ok() }
}

/// The response to a call whose server says that it is a task, in a way that nobody can use.
pub(crate) fn unusable_task(server: &str, defect: &dyn std::fmt::Display) -> RpcError {
    lost_call("protocol", &format!("`{server}` has made the call a task that cannot be used: {defect}"))
}

/// The response to a request of 2026-07-28 by a host that has to begin a session, and why.
pub(crate) fn handshake_required(why: &str) -> RpcError {
    let legacy = Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Legacy);
    let supported: Vec<_> = legacy.map(Revision::as_str).collect();
    let facts = json!({ "supported": supported, "requested": Revision::V2026_07_28.as_str() });
    RpcError { code: code::UNSUPPORTED_VERSION, message: why.to_owned(), data: Json::encode(&facts).ok() }
}

/// The error for a method that is not known here.
pub(crate) fn unknown_method(method: &str) -> RpcError {
    RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
}

/// The response to a request of a legacy host that has no counterpart on a modern server.
pub(crate) fn unsupported_by_modern(asked: &str) -> Option<RpcError> {
    let missing = match asked {
        method::SET_LEVEL => "levels of logging",
        method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE => "subscriptions to resources",
        _ => return None,
    };
    Some(RpcError::new(
        code::METHOD_NOT_FOUND,
        format!(
            "{asked} is not available: the server speaks only 2026-07-28, which has no such request, and bowline \
         does not translate {missing} yet"
        ),
    ))
}

fn rounded_seconds(wait: Duration) -> Value {
    // Rounded to tenths of a second for reading.
    ((wait.as_secs_f64() * 10.0).round() / 10.0).into()
}

#[cfg(test)]
mod tests {
    use bowline::Limit;

    use super::*;

    fn data(error: &RpcError) -> Value {
        error.data.as_ref().unwrap().decode().unwrap()
    }

    #[test]
    fn a_fault_says_what_is_known_and_repeats_no_secret() {
        let fault = Fault::new(Cause::Redirect { location: "https://evil.example/?token=s3cret".into() })
            .with_body(b"s3cret")
            .with_stderr(vec!["s3cret".into()]);
        let error = from_fault("docs", &fault, &ConnectionState::unknown());
        assert_eq!(error.code, UNREACHABLE);
        assert!(!format!("{error:?}").contains("s3cret"));
        assert_eq!(
            data(&error),
            json!({"bowline": {"server": "docs", "cause": "redirect", "execution": "unknown"}})
        );
    }

    #[test]
    fn a_server_that_is_tried_again_says_when() {
        let cause = Fault::before_sending(Cause::Refused);
        let until = Instant::now() + Duration::from_secs(3600);
        let status = Status::BackingOff { until, cause: cause.clone() };
        let gave_up = cause.with_next_step("the next attempt is due");
        let standing = ConnectionState {
            status: &status,
            outage: Some(Duration::from_millis(12_340)),
            reconnect_wait: Duration::from_secs(10),
            reconnect_setting: Some("--reconnect-wait, or reconnect_wait in its entry,"),
            login_command: None,
        };
        let error = from_fault("docs", &gave_up, &standing);
        let facts = data(&error)["bowline"].clone();
        assert_eq!(facts["execution"], "not_executed");
        assert!((3599.0..=3600.0).contains(&facts["retry_in"].as_f64().unwrap()));
        assert_eq!((&facts["away"], &facts["reconnect_wait"]), (&json!(12.3), &json!(10.0)));
        assert_eq!(
            error.message,
            "bowline: `docs` cannot be reached: connection refused (the request was not executed); it has been away \
             for 12.3 s, and a call waits 10.0 s for it to come back: raise --reconnect-wait, or reconnect_wait in \
             its entry, if it needs longer"
        );
        // Nobody is told to raise what cannot be configured.
        let alone = ConnectionState { reconnect_setting: None, ..standing };
        assert!(
            from_fault("docs", &gave_up, &alone).message.ends_with("a call waits 10.0 s for it to come back")
        );
        // The attempt of the call may have begun since it gave up: the message is the same.
        let trying = ConnectionState { status: &Status::Connecting, ..standing };
        assert_eq!(from_fault("docs", &gave_up, &trying).message, error.message);
        // A call that may have run did not fail because of the wait.
        let cut = from_fault("docs", &Fault::new(Cause::Cut), &standing);
        assert_eq!(
            cut.message,
            "bowline: no answer from `docs`: connection lost (the server may have executed the request)"
        );
    }

    #[test]
    fn a_server_that_answered_is_not_said_to_be_silent() {
        for (cause, lead) in [
            (
                Cause::Status { code: 503, retry_after: None },
                "`docs` answered with an error: HTTP status 503",
            ),
            (Cause::SessionLost, "`docs` lost the session"),
            (
                Cause::Protocol(Misbehavior::ContentType),
                "the answer of `docs` cannot be used: the server answered",
            ),
            (Cause::Protocol(Misbehavior::NoAnswer), "no answer from `docs`: the server ended the exchange"),
            (Cause::Timeout(Limit::Idle), "no answer from `docs`: no answer in time"),
        ] {
            let message = from_fault("docs", &Fault::new(cause), &ConnectionState::unknown()).message;
            assert!(message.starts_with(&format!("bowline: {lead}")), "{message}");
        }
    }

    // SC-03
    #[test]
    fn a_login_that_would_help_is_named() {
        let run = |scopes: &[String]| Some(format!("login docs {}", scopes.join("+")));
        let refused = |code, header: &str| {
            let fault =
                Fault::before_sending(Cause::LoginRequired { code, challenge: vec![header.to_owned()] });
            let standing = ConnectionState { login_command: Some(&run), ..ConnectionState::unknown() };
            let error = from_fault("docs", &fault, &standing);
            (error.message.clone(), data(&error)["bowline"].clone())
        };
        let (message, facts) = refused(403, "Bearer error=\"insufficient_scope\", scope=\"a b\"");
        assert!(message.ends_with("a person has to run `login docs a+b`"), "{message}");
        assert_eq!((&facts["login"], &facts["scopes"]), (&json!("login docs a+b"), &json!(["a", "b"])));
        let (_, facts) = refused(401, "Bearer scope=\"a\"");
        assert_eq!((&facts["login"], facts.get("scopes")), (&json!("login docs "), None));
        // TK-04: final, whatever the login.
        let (message, facts) = refused(403, "Bearer error=\"access_denied\"");
        assert!(!message.contains("login docs") && facts.get("login").is_none(), "{message}");
    }
}
