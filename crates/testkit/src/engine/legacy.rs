//! The handshake era: `initialize`, sessions and the methods that need a session.

use serde_json::{Value, json};

use super::features::{self, Caller, Job};
use super::{Engine, Era, Plan, Work, capabilities, logging};
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
                Box::new(move |answers| match (job.finish)(answers) {
                    Ok(result) => rpc::result(&id, result),
                    Err(refusal) => refusal.message(&id),
                })
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
        "capabilities": capabilities(&script, Era::Legacy, &version),
        "serverInfo": script.server_info(),
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

fn subscribable(engine: &Engine) -> bool {
    let script = engine.script();
    script.offers("resources") && script.offers("resources.subscribe")
}

fn request(engine: &Engine, session: Option<&str>, method: &str, params: &Value) -> Result<Job, Refusal> {
    let Some(known) = engine.with_session(session, |session| session.clone()) else {
        if method == "ping" {
            return Ok(Job::done(json!({})));
        }
        // Most old stdio servers answer the probe of a modern client like this (E.1).
        if method == "server/discover" {
            return Err(features::unknown(method));
        }
        let (code, message) = &engine.script().uninitialized;
        return Err(Refusal::new(*code, message.as_str()));
    };
    if !known.initialized && method != "ping" {
        engine.ledger.violation(format!("{method} before notifications/initialized"));
    }
    let done = || Ok(Job::done(json!({})));
    match method {
        "ping" => done(),
        "logging/setLevel" if engine.script().offers("logging") => {
            let level = params["level"].as_str().unwrap_or_default();
            if !logging::is_level(level) {
                return Err(Refusal::new(INVALID_PARAMS, format!("Unknown level: {level}")));
            }
            engine.with_session(session, |session| session.log_level = Some(level.to_owned()));
            done()
        }
        "resources/subscribe" | "resources/unsubscribe" if subscribable(engine) => {
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
            let caller = Caller {
                era: Era::Legacy,
                version: &known.version,
                capabilities: &known.client["capabilities"],
                log_level: Some(known.log_level.as_deref().unwrap_or("debug")),
            };
            features::answer(engine, caller, method, params)
        }
    }
}
