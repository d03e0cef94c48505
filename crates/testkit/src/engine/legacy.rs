//! The handshake era: `initialize`, sessions and what hangs on them.

use serde_json::{Value, json};

use super::features::{self, Caller, Job};
use super::{Engine, Era, Plan, Work, capabilities};
use crate::rpc::{self, INVALID_PARAMS, Refusal};

pub(super) fn handle(engine: &Engine, session: Option<&str>, message: &Value) -> Plan {
    let id = message.get("id").unwrap_or(&Value::Null);
    let params = message.get("params").unwrap_or(&Value::Null);
    let Some(method) = message["method"].as_str() else {
        engine.answered(message);
        return Plan::Accepted;
    };
    if id.is_null() {
        notified(engine, session, method, params);
        return Plan::Accepted;
    }
    if method == "initialize" {
        return initialize(engine, session, id, params);
    }
    match request(engine, session, method, params) {
        Ok(job) => Plan::Work(Work {
            era: Era::Legacy,
            id: id.clone(),
            status: 200,
            opened: None,
            steps: job.steps,
            finish: {
                let id = id.clone();
                Box::new(move |answers| rpc::result(&id, (job.finish)(answers)))
            },
        }),
        Err(refusal) => Plan::refused(Era::Legacy, id, refusal),
    }
}

fn initialize(engine: &Engine, session: Option<&str>, id: &Value, params: &Value) -> Plan {
    let script = engine.script();
    let Some(asked) = params["protocolVersion"].as_str() else {
        return Plan::refused(Era::Legacy, id, Refusal::new(INVALID_PARAMS, "protocolVersion is missing"));
    };
    let version = match script.legacy_versions.iter().find(|version| *version == asked) {
        Some(version) => version.clone(),
        None => script.legacy_versions[0].clone(),
    };
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": capabilities(&script, Era::Legacy),
        "serverInfo": {"name": script.name, "version": script.version},
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    let opened = engine.open_session(session, &version, params);
    Plan::Work(Work { opened: Some(opened), ..Work::ready(Era::Legacy, id, rpc::result(id, result)) })
}

fn notified(engine: &Engine, session: Option<&str>, method: &str, params: &Value) {
    match method {
        "notifications/initialized" => {
            engine.with_session(session, |session| session.initialized = true);
        }
        "notifications/cancelled" => engine.cancel(session, &params["requestId"]),
        _ => {}
    }
}

fn request(engine: &Engine, session: Option<&str>, method: &str, params: &Value) -> Result<Job, Refusal> {
    let Some((version, client, initialized)) = engine.with_session(session, |session| {
        (session.version.clone(), session.client.clone(), session.initialized)
    }) else {
        if method == "ping" {
            return Ok(Job::done(json!({})));
        }
        // What most old stdio servers say to the probe of a modern client (E.1).
        if method == "server/discover" {
            return Err(features::unknown(method));
        }
        let (code, message) = &engine.script().uninitialized;
        return Err(Refusal::new(*code, message.as_str()));
    };
    if !initialized && method != "ping" {
        engine.ledger.violation(format!("{method} before notifications/initialized"));
    }
    let done = || Ok(Job::done(json!({})));
    match method {
        "ping" => done(),
        "logging/setLevel" if engine.script().offers("logging") => {
            let level = params["level"].as_str().map(str::to_owned);
            engine.with_session(session, |session| session.log_level = level);
            done()
        }
        "resources/subscribe" | "resources/unsubscribe" if engine.script().offers("resources") => {
            let uri = params["uri"].as_str().unwrap_or_default().to_owned();
            engine.with_session(session, |session| {
                session.subscriptions.retain(|subscribed| *subscribed != uri);
                if method == "resources/subscribe" {
                    session.subscriptions.push(uri);
                }
            });
            done()
        }
        _ => {
            let caller =
                Caller { era: Era::Legacy, version: &version, capabilities: &client["capabilities"] };
            features::answer(engine, caller, method, params)
        }
    }
}
