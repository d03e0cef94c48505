//! The era of 2026-07-28, in which every request carries its revision and capabilities.

use serde_json::{Value, json};

use super::features::{self, Caller, Job};
use super::{Engine, Era, Listening, Plan, Work, capabilities, tasks};
use crate::rpc::{self, INVALID_PARAMS, Refusal, UNSUPPORTED_VERSION};
use crate::script::Script;

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) fn handle(engine: &Engine, channel: Option<&str>, message: &Value) -> Plan {
    let id = message.get("id").unwrap_or(&Value::Null);
    let params = message.get("params").unwrap_or(&Value::Null);
    let Some(method) = message["method"].as_str() else {
        // BM-06: only servers send responses in this era.
        engine.ledger.violation("a response on a modern connection");
        return Plan::Accepted;
    };
    if id.is_null() {
        if method == "notifications/cancelled" {
            engine.cancel(channel, &params["requestId"]);
        }
        return Plan::Accepted;
    }
    match request(engine, id, method, params) {
        Ok(plan) => plan,
        Err(refusal) => Plan::refused(Era::Modern, id, refusal),
    }
}

fn request(engine: &Engine, id: &Value, method: &str, params: &Value) -> Result<Plan, Refusal> {
    let script = engine.script();
    let meta = &params["_meta"];
    // A client of the other era learns the supported revisions from the data (LC-06).
    let asked = meta[VERSION_KEY].as_str().or(params["protocolVersion"].as_str());
    let speaks = json!({"supported": supported(&script), "requested": asked});
    let Some(version) = meta[VERSION_KEY].as_str() else {
        return Err(missing(VERSION_KEY).data(speaks));
    };
    if !meta[CAPABILITIES_KEY].is_object() {
        return Err(missing(CAPABILITIES_KEY));
    }
    if !script.modern_versions.iter().any(|spoken| spoken == version) {
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
                "supportedVersions": supported(&script),
                "capabilities": capabilities(&script, Era::Modern, version),
            });
            if let Some(instructions) = &script.instructions {
                result["instructions"] = instructions.as_str().into();
            }
            Job::done(result)
        }
        "subscriptions/listen" => return listen(&script, caller, id, params),
        _ => features::answer(engine, caller, method, params).map_err(|refusal| {
            let status = if refusal.code == rpc::METHOD_NOT_FOUND { 404 } else { refusal.status };
            refusal.status(status)
        })?,
    };
    let (id, method) = (id.clone(), method.to_owned());
    Ok(Plan::Work(Work {
        era: Era::Modern,
        id: id.clone(),
        status: 200,
        opened: None,
        steps: job.steps,
        finish: Box::new(move |answers| match (job.finish)(answers) {
            Ok(result) => rpc::result(&id, complete(&script, &method, result)),
            Err(refusal) => refusal.message(&id),
        }),
    }))
}

fn listen(script: &Script, caller: Caller<'_>, id: &Value, params: &Value) -> Result<Plan, Refusal> {
    let asked = params["notifications"].as_object().cloned().unwrap_or_default();
    if asked.contains_key("taskIds") && script.offers("tasks") {
        tasks::declared(caller)?;
    }
    let filter: Value = asked.into_iter().filter(|(kind, _)| granted(script, kind)).collect();
    let acknowledged = rpc::notification(
        "notifications/subscriptions/acknowledged",
        json!({"_meta": {SUBSCRIPTION_KEY: id}, "notifications": filter}),
    );
    Ok(Plan::Listen { listening: Listening { id: id.clone(), filter }, acknowledged })
}

// SB-02
/// Returns whether this member of a subscription's filter is granted: the server offers it and the
/// script does not withhold it.
fn granted(script: &Script, kind: &str) -> bool {
    let has = |capability: &str, part: &str| script.offers(capability) && script.offers(part);
    let there = match kind {
        "toolsListChanged" => has("tools", "tools.listChanged"),
        "promptsListChanged" => has("prompts", "prompts.listChanged"),
        "resourcesListChanged" => has("resources", "resources.listChanged"),
        "resourceSubscriptions" => has("resources", "resources.subscribe"),
        "taskIds" => script.offers("tasks"),
        _ => false,
    };
    there && script.listen_grants.as_ref().is_none_or(|grants| grants.iter().any(|grant| grant == kind))
}

/// Adds the members that every modern result carries.
fn complete(script: &Script, method: &str, mut result: Value) -> Value {
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

fn supported(script: &Script) -> Vec<String> {
    let mut versions = script.modern_versions.clone();
    if script.eras == crate::script::Eras::Dual {
        versions.extend(script.legacy_versions.iter().cloned());
    }
    versions
}

fn missing(key: &str) -> Refusal {
    Refusal::new(INVALID_PARAMS, format!("params._meta lacks {key}")).status(400)
}
