//! What a host is offered in the result of its `initialize`, with a server behind the relay or
//! before there is one.

use bowline::types::method;
use bowline::{Era, Fault, Json, Peer};
use bowline_proto::server::handshake::{InitializeParams, OfferedLists, ServerOffer, implementation};
use bowline_proto::wire::object::Edit;
use serde_json::{Map, Value, json};

/// The lists that the host was offered, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelayOffer {
    pub(crate) lists: OfferedLists,
    pub(crate) basis: OfferBasis,
}

/// What an offer is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferBasis {
    /// The capabilities of the server.
    ServerKnown,
    /// Nothing: the server had not answered yet, so every list was offered.
    ServerUnknown,
}

impl RelayOffer {
    /// Whether the lists were offered before the server had answered.
    pub(crate) fn is_speculative(self) -> bool {
        self.basis == OfferBasis::ServerUnknown
    }
}

/// Builds the result once the server is known: what the server declares, in a revision that both
/// it and the host speak. The results of a modern server are those of the newest handshake with
/// more members, so there the revision of the host is used.
pub(crate) fn build_result(params: &InitializeParams, peer: &Peer) -> (Json, RelayOffer) {
    let capabilities = match peer.era() {
        Era::Legacy => peer.capabilities.json.clone(),
        Era::Modern => without_unbridged(peer.capabilities.json.clone()),
    };
    let offer = ServerOffer {
        revision: params.agreed_revision(peer.revision),
        capabilities: with_list_changed(capabilities),
        server_info: match &peer.server {
            Some(server) => server.json.clone(),
            // The schema of the result requires one.
            None => implementation("unknown", "0"),
        },
        instructions: peer.instructions.clone(),
    };
    let lists = OfferedLists::among(&peer.capabilities);
    (offer.to_result(), RelayOffer { lists, basis: OfferBasis::ServerKnown })
}

/// Builds the result while nothing is known of the server. An error would be final: hosts never
/// retry a server that failed its handshake, and this one may be back in a minute. So every list is
/// offered, and announced as changed when the server is there.
pub(crate) fn build_result_without_server(
    params: &InitializeParams,
    server: &str,
    cause: Option<&Fault>,
) -> (Json, RelayOffer) {
    let changing = json!({ "listChanged": true });
    let capabilities = json!({ "tools": changing, "prompts": changing, "resources": changing });
    let why = cause.map_or_else(|| "it has not answered yet".to_owned(), |cause| cause.cause.to_string());
    let instructions = format!(
        "The server `{server}` could not be reached so far ({why}). bowline keeps trying; its tools, \
         prompts and resources are announced as soon as it answers."
    );
    let offer = ServerOffer {
        revision: params.revision,
        capabilities: Json::encode(&capabilities).expect("an object is JSON"),
        server_info: implementation(&format!("bowline, for {server}"), env!("CARGO_PKG_VERSION")),
        instructions: Some(instructions),
    };
    (offer.to_result(), RelayOffer { lists: OfferedLists::ALL, basis: OfferBasis::ServerUnknown })
}

/// The capabilities of the host that the server is told of: requests about tasks are not forwarded
/// to hosts.
pub(crate) fn forwarded_capabilities(params: &InitializeParams) -> Json {
    edit_object(params.capabilities.clone(), |capabilities| {
        capabilities.remove("tasks");
    })
}

/// Adds that a modern host can show apps, if it declares that, to the capabilities that servers are told of.
/// The text depends only on that, whatever else the host writes.
// AP-01
pub(crate) fn with_apps(forwarded: Json, declared: &Json) -> Json {
    let apps = declared.member("extensions").and_then(|extensions| extensions.member(APPS_EXTENSION));
    let formats = apps.and_then(|apps| apps.member("mimeTypes")?.decode::<Vec<String>>().ok());
    if !formats.is_some_and(|formats| formats.iter().any(|format| format == APP_FORMAT)) {
        return forwarded;
    }
    edit_object(forwarded, |capabilities| {
        capabilities
            .insert("extensions".to_owned(), json!({ APPS_EXTENSION: { "mimeTypes": [APP_FORMAT] } }));
    })
}

/// The extension with which a host declares that it can show apps, and the format that it names.
const APPS_EXTENSION: &str = "io.modelcontextprotocol/ui";
const APP_FORMAT: &str = "text/html;profile=mcp-app";

/// The empty result of a list method, for a host that was offered lists before the server was
/// known.
pub(crate) fn empty_list_result(asked: &str) -> Option<Json> {
    let member = match asked {
        method::TOOLS_LIST => "tools",
        method::PROMPTS_LIST => "prompts",
        method::RESOURCES_LIST => "resources",
        method::TEMPLATES_LIST => "resourceTemplates",
        _ => return None,
    };
    Json::encode(&json!({ member: [] })).ok()
}

/// Declares `listChanged` on every offered list: a change that the server does not announce is
/// detected after a reconnect, and hosts listen only where `listChanged` is declared. The rest
/// stays as the server wrote it.
pub(crate) fn with_list_changed(capabilities: Json) -> Json {
    let truth = Json::encode(&true).expect("a boolean is JSON");
    ["tools", "prompts", "resources"].into_iter().fold(capabilities, |all, name| {
        let listed = all.member(name).filter(Json::is_object);
        let listed =
            listed.and_then(|feature| Edit::new().set("listChanged", &truth).apply(Some(&feature)).ok());
        match listed {
            Some(feature) => Edit::new().set(name, &feature).apply(Some(&all)).unwrap_or(all),
            None => all,
        }
    })
}

/// Removes the capabilities of a modern server that a legacy host would use through requests which
/// that server does not know.
fn without_unbridged(capabilities: Json) -> Json {
    edit_object(capabilities, |capabilities| {
        capabilities.remove("logging");
        if let Some(Value::Object(resources)) = capabilities.get_mut("resources") {
            resources.remove("subscribe");
        }
    })
}

/// Edits an object. Returns it unchanged if it cannot be decoded, which only a hostile one cannot.
fn edit_object(object: Json, edit: impl FnOnce(&mut Map<String, Value>)) -> Json {
    let Ok(mut map) = object.decode::<Map<String, Value>>() else { return object };
    let before = map.clone();
    edit(&mut map);
    if map == before { object } else { Json::encode(&map).unwrap_or(object) }
}

#[cfg(test)]
mod tests {
    use bowline::Revision;
    use bowline::types::Capabilities;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    // AP-01
    #[test]
    fn ap_01_apps_are_forwarded_if_they_are_declared() {
        let apps =
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;
        for (declared, forwarded) in [
            ("{}", "{}"),
            (r#"{"extensions":{"a/b":{}}}"#, "{}"),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{}}}"#, "{}"),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/x"]}}}"#, "{}"),
            (apps, apps),
            (&*apps.replace("]}", r#","text/x"],"later":1}"#), apps),
        ] {
            assert_eq!(with_apps(json("{}"), &json(declared)).as_str(), forwarded, "{declared}");
        }
    }

    fn params(version: &str) -> InitializeParams {
        InitializeParams::parse(Some(&json(&format!(r#"{{"protocolVersion":"{version}"}}"#))))
    }

    fn peer(revision: Revision, capabilities: &str) -> Peer {
        let capabilities = Capabilities::decode(&json(capabilities)).unwrap();
        Peer::new(revision, capabilities)
    }

    /// LC-02: the requested revision if we speak it, else our newest; never newer than the server.
    #[test]
    fn lc_02_the_older_of_both_revisions() {
        use Revision::{V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};
        for (asked, server, agreed) in [
            ("2025-06-18", V2025_06_18, V2025_06_18),
            ("2024-11-05", V2025_11_25, Revision::V2024_11_05),
            ("2025-11-25", V2025_03_26, V2025_03_26),
            ("1999-01-01", V2025_06_18, V2025_06_18),
            ("2026-07-28", V2025_11_25, V2025_11_25),
            ("2025-06-18", V2026_07_28, V2025_06_18),
            ("2026-07-28", V2026_07_28, V2025_11_25),
        ] {
            let (answer, _) = build_result(&params(asked), &peer(server, "{}"));
            let told: String = answer.member("protocolVersion").unwrap().decode().unwrap();
            assert_eq!(told, agreed.as_str(), "{asked} and {server}");
        }
    }

    #[test]
    fn capabilities_pass_with_lists_that_can_change() {
        let offered = r#"{"x":1.0,"tools":{"a":1e400},"prompts":{"listChanged":false},"logging":{}}"#;
        let (answer, offer) = build_result(&params("2025-06-18"), &peer(Revision::V2025_06_18, offered));
        assert_eq!(
            answer.member("capabilities").unwrap().as_str(),
            r#"{"x":1.0,"tools":{"a":1e400,"listChanged":true},"prompts":{"listChanged":true},"logging":{}}"#
        );
        assert_eq!(
            offer,
            RelayOffer {
                lists: OfferedLists { resources: false, ..OfferedLists::ALL },
                basis: OfferBasis::ServerKnown
            }
        );
    }

    #[test]
    fn what_cannot_be_bridged_is_not_offered() {
        let offered = r#"{"logging":{},"resources":{"subscribe":true},"x":1}"#;
        let (answer, _) = build_result(&params("2025-11-25"), &peer(Revision::V2026_07_28, offered));
        let told: Value = answer.member("capabilities").unwrap().decode().unwrap();
        assert_eq!(told, json!({"resources": {"listChanged": true}, "x": 1}));
    }

    #[test]
    fn tasks_of_the_host_are_not_declared_to_the_server() {
        let params = json(r#"{"capabilities":{"roots":{},"tasks":{"list":{}}}}"#);
        let params = InitializeParams::parse(Some(&params));
        assert_eq!(forwarded_capabilities(&params).as_str(), r#"{"roots":{}}"#);
    }
}
