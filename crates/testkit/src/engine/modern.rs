//! The era of 2026-07-28, in which every request carries its revision and capabilities.

use serde_json::{Value, json};

use super::features::{self, Caller, PendingResult};
use super::{Engine, Era, PendingResponse, ResponsePlan, SubscriptionInfo, capabilities, tasks};
use crate::rpc::{self, INVALID_PARAMS, Refusal, UNSUPPORTED_VERSION};
use crate::script::{MODERN_VERSION, Script};

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) fn handle(engine: &Engine, channel: Option<&str>, message: &Value) -> ResponsePlan {
    let id = message.get("id").unwrap_or(&Value::Null);
    let params = message.get("params").unwrap_or(&Value::Null);
    let Some(method) = message["method"].as_str() else {
        // BM-06: only servers send responses in this era.
        engine.message_log.record_violation("a response on a modern connection");
        return ResponsePlan::Accepted;
    };
    if id.is_null() {
        if method == "notifications/cancelled" {
            engine.cancel_call(channel, &params["requestId"]);
        }
        return ResponsePlan::Accepted;
    }
    match handle_request(engine, id, method, params) {
        Ok(plan) => plan,
        Err(refusal) => ResponsePlan::from_refusal(Era::Modern, id, refusal),
    }
}

fn handle_request(
    engine: &Engine,
    id: &Value,
    method: &str,
    params: &Value,
) -> Result<ResponsePlan, Refusal> {
    let script = engine.script();
    let meta = &params["_meta"];
    // A client of the other era learns the supported revisions from the data (LC-06).
    let requested = meta[VERSION_KEY].as_str().or(params["protocolVersion"].as_str());
    let speaks = json!({"supported": supported_versions(&script), "requested": requested});
    let Some(version) = meta[VERSION_KEY].as_str() else {
        return Err(missing_meta_key(VERSION_KEY).data(speaks));
    };
    if !meta[CAPABILITIES_KEY].is_object() {
        return Err(missing_meta_key(CAPABILITIES_KEY));
    }
    if version != MODERN_VERSION {
        return Err(Refusal::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
            .status(400)
            .data(speaks));
    }
    let caller = Caller {
        era: Era::Modern,
        version,
        capabilities: &meta[CAPABILITIES_KEY],
        log_level: meta[LOG_LEVEL_KEY].as_str(),
    };
    let job = match method {
        "server/discover" => {
            let mut result = json!({
                "supportedVersions": supported_versions(&script),
                "capabilities": capabilities(&script, Era::Modern, version),
            });
            if let Some(instructions) = &script.instructions {
                result["instructions"] = instructions.as_str().into();
            }
            PendingResult::ready(result)
        }
        "subscriptions/listen" => return open_subscription(&script, caller, id, params),
        _ => features::handle_request(engine, caller, method, params).map_err(|refusal| {
            let status = if refusal.code == rpc::METHOD_NOT_FOUND { 404 } else { refusal.status };
            refusal.status(status)
        })?,
    };
    let (id, method) = (id.clone(), method.to_owned());
    Ok(ResponsePlan::Work(PendingResponse {
        era: Era::Modern,
        id: id.clone(),
        status: 200,
        opened_session: None,
        steps: job.steps,
        finish: Box::new(move |answers| match (job.finish)(answers) {
            Ok(result) => rpc::result(&id, add_common_members(&script, &method, result)),
            Err(refusal) => refusal.message(&id),
        }),
    }))
}

fn open_subscription(
    script: &Script,
    caller: Caller<'_>,
    id: &Value,
    params: &Value,
) -> Result<ResponsePlan, Refusal> {
    let requested = params["notifications"].as_object().cloned().unwrap_or_default();
    if requested.contains_key("taskIds") && script.offers("tasks") {
        tasks::check_extension_declared(caller)?;
    }
    let filter: Value = requested.into_iter().filter(|(kind, _)| is_granted(script, kind)).collect();
    let acknowledged = rpc::notification(
        "notifications/subscriptions/acknowledged",
        json!({"_meta": {SUBSCRIPTION_KEY: id}, "notifications": filter}),
    );
    Ok(ResponsePlan::Subscribe { listening: SubscriptionInfo { id: id.clone(), filter }, acknowledged })
}

// SB-02
/// Returns whether this member of a subscription's filter is granted: the server offers it and the
/// script does not withhold it.
fn is_granted(script: &Script, kind: &str) -> bool {
    let has = |capability: &str, part: &str| script.offers(capability) && script.offers(part);
    let is_offered = match kind {
        "toolsListChanged" => has("tools", "tools.listChanged"),
        "promptsListChanged" => has("prompts", "prompts.listChanged"),
        "resourcesListChanged" => has("resources", "resources.listChanged"),
        "resourceSubscriptions" => has("resources", "resources.subscribe"),
        "taskIds" => script.offers("tasks"),
        _ => false,
    };
    is_offered && script.listen_grants.as_ref().is_none_or(|grants| grants.iter().any(|grant| grant == kind))
}

/// Adds the members that every modern result carries.
fn add_common_members(script: &Script, method: &str, mut result: Value) -> Value {
    if result["resultType"].is_null() {
        result["resultType"] = "complete".into();
    }
    result["_meta"][SERVER_INFO_KEY] = script.server_info();
    // CA-01
    let cached = method.ends_with("/list") || matches!(method, "server/discover" | "resources/read");
    if cached && result["resultType"] == "complete" {
        result["ttlMs"] = script.ttl_ms.into();
        result["cacheScope"] = "public".into();
        for (name, value) in script.cache_hints(method) {
            match (value, result.as_object_mut()) {
                (Value::Null, Some(result)) => drop(result.remove(name)),
                (value, _) => result[name] = value.clone(),
            }
        }
    }
    result
}

fn supported_versions(script: &Script) -> Vec<String> {
    let mut versions = vec![MODERN_VERSION.to_owned()];
    if script.eras == crate::script::Eras::Dual {
        versions.extend(script.legacy_versions.iter().cloned());
    }
    versions
}

fn missing_meta_key(key: &str) -> Refusal {
    Refusal::new(INVALID_PARAMS, format!("params._meta lacks {key}")).status(400)
}
