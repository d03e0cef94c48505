//! The handshake era: `initialize`, sessions and the methods that need a session.

use serde_json::{Value, json};

use super::features::{self, Caller, PendingResult};
use super::{Engine, Era, PendingResponse, ResponsePlan, capabilities, logging};
use crate::rpc::{self, INVALID_PARAMS, Refusal};

pub(super) fn handle(engine: &Engine, session: Option<&str>, message: &Value) -> ResponsePlan {
    let id = message.get("id").unwrap_or(&Value::Null);
    let params = message.get("params").unwrap_or(&Value::Null);
    let Some(method) = message["method"].as_str() else {
        engine.handle_response(message);
        return ResponsePlan::Accepted;
    };
    if id.is_null() {
        handle_notification(engine, session, method, params);
        return ResponsePlan::Accepted;
    }
    if method == "initialize" {
        return initialize(engine, session, id, params);
    }
    match handle_request(engine, session, method, params) {
        Ok(job) => ResponsePlan::Work(PendingResponse {
            era: Era::Legacy,
            id: id.clone(),
            status: 200,
            opened_session: None,
            steps: job.steps,
            finish: {
                let id = id.clone();
                Box::new(move |answers| match (job.finish)(answers) {
                    Ok(result) => rpc::result(&id, result),
                    Err(refusal) => refusal.message(&id),
                })
            },
        }),
        Err(refusal) => ResponsePlan::from_refusal(Era::Legacy, id, refusal),
    }
}

fn initialize(engine: &Engine, session: Option<&str>, id: &Value, params: &Value) -> ResponsePlan {
    let script = engine.script();
    let Some(asked) = params["protocolVersion"].as_str() else {
        return ResponsePlan::from_refusal(
            Era::Legacy,
            id,
            Refusal::new(INVALID_PARAMS, "protocolVersion is missing"),
        );
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
    ResponsePlan::Work(PendingResponse {
        opened_session: Some(opened),
        ..PendingResponse::ready(Era::Legacy, id, rpc::result(id, result))
    })
}

fn handle_notification(engine: &Engine, session: Option<&str>, method: &str, params: &Value) {
    match method {
        "notifications/initialized" => {
            engine.with_session(session, |session| session.initialized = true);
        }
        "notifications/cancelled" => engine.cancel_call(session, &params["requestId"]),
        _ => {}
    }
}

fn offers_resource_subscriptions(engine: &Engine) -> bool {
    let script = engine.script();
    script.offers("resources") && script.offers("resources.subscribe")
}

fn handle_request(
    engine: &Engine,
    session: Option<&str>,
    method: &str,
    params: &Value,
) -> Result<PendingResult, Refusal> {
    let Some(known) = engine.with_session(session, |session| session.clone()) else {
        if method == "ping" {
            return Ok(PendingResult::ready(json!({})));
        }
        // Most old stdio servers answer the probe of a modern client like this (E.1).
        if method == "server/discover" {
            return Err(features::method_not_found(method));
        }
        let (code, message) = &engine.script().uninitialized;
        return Err(Refusal::new(*code, message.as_str()));
    };
    if !known.initialized && method != "ping" {
        engine.message_log.record_violation(format!("{method} before notifications/initialized"));
    }
    let done = || Ok(PendingResult::ready(json!({})));
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
        "resources/subscribe" | "resources/unsubscribe" if offers_resource_subscriptions(engine) => {
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
            features::handle_request(engine, caller, method, params)
        }
    }
}
