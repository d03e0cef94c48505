//! The handshake with the host: parses its `initialize`, and builds the result.

use bowline::fault::Fault;
use bowline::view::Implementation;
use bowline::wire::object::Edit;
use bowline::wire::{Json, extension, method};
use bowline::{Era, Peer, Revision};
use serde_json::{Map, Value, json};

/// The params of the `initialize` of a host.
#[derive(Clone, Debug)]
pub(crate) struct InitializeParams {
    /// The revision it requests, or the newest legacy one if that cannot be used.
    pub(crate) revision: Revision,
    /// The client capabilities it declares.
    pub(crate) capabilities: Json,
    /// Its name and version: an `Implementation`.
    pub(crate) client_info: Json,
}

/// The lists that the host was offered in the result of `initialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfferedLists {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
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

impl InitializeParams {
    /// Reads the params of `initialize`. Missing or odd members are no reason to refuse a host.
    pub(crate) fn parse(params: Option<&Json>) -> Self {
        let member = |name: &str| params.and_then(|params| params.member(name));
        let asked = member("protocolVersion").and_then(|version| version.decode::<String>().ok());
        // A modern revision has no handshake; a host that sends one for it gets the newest that has
        // (LC-02).
        let revision = asked
            .and_then(|asked| Revision::parse(&asked))
            .filter(|revision| revision.era() == Era::Legacy)
            .unwrap_or(Revision::NEWEST_LEGACY);
        // A malformed identity is better left out than passed on.
        let client = member("clientInfo").filter(|info| Implementation::decode(info).is_ok());
        let capabilities = member("capabilities").filter(Json::is_object).map(without_tasks);
        Self {
            revision,
            capabilities: capabilities.unwrap_or_else(Json::empty_object),
            client_info: client.unwrap_or_else(|| implementation("unknown host", "0")),
        }
    }

    /// Whether the host declares tasks of 2026-07-28. Then it gets task handles as they are and
    /// polls them itself; for any other host tasks are followed to their end.
    pub(crate) fn declares_tasks(&self) -> bool {
        let extensions = self.capabilities.member("extensions");
        extensions.is_some_and(|extensions| extensions.member(extension::TASKS).is_some())
    }

    /// Builds the result once the server is known: what the server declares, in a revision that
    /// both it and the host speak.
    ///
    /// The older one of the two revisions is used. A host that speaks an older one than the server
    /// ignores what it does not know; a host that speaks a newer one must not expect what the
    /// server does not send. The results of a modern server are those of the newest handshake with
    /// more members, so there the revision of the host is used.
    pub(crate) fn build_result(&self, peer: &Peer) -> (Json, OfferedLists) {
        let (revision, capabilities) = match peer.era() {
            Era::Legacy => (self.revision.min(peer.revision), peer.capabilities.json.clone()),
            Era::Modern => (self.revision, without_unbridged(peer.capabilities.json.clone())),
        };
        let offer = OfferedLists {
            tools: peer.capabilities.tools.is_some(),
            prompts: peer.capabilities.prompts.is_some(),
            resources: peer.capabilities.resources.is_some(),
            basis: OfferBasis::ServerKnown,
        };
        let server = match &peer.server {
            Some(server) => server.json.clone(),
            // The schema of the result requires one.
            None => implementation("unknown", "0"),
        };
        (
            initialize_result(
                revision,
                &with_list_changed(capabilities),
                &server,
                peer.instructions.as_deref(),
            ),
            offer,
        )
    }

    /// Builds the result while nothing is known of the server. An error would be final: hosts never
    /// retry a server that failed its handshake, and this one may be back in a minute. So every
    /// list is offered, and announced as changed when the server is there.
    pub(crate) fn build_result_without_server(
        &self,
        server: &str,
        cause: Option<&Fault>,
    ) -> (Json, OfferedLists) {
        let changing = json!({ "listChanged": true });
        let offered = json!({ "tools": changing, "prompts": changing, "resources": changing });
        let capabilities = Json::encode(&offered).expect("an object is JSON");
        let why = cause.map_or_else(|| "it has not answered yet".to_owned(), |cause| cause.cause.to_string());
        let instructions = format!(
            "The server `{server}` could not be reached so far ({why}). bowline keeps trying; its tools, \
             prompts and resources are announced as soon as it answers."
        );
        let identity = implementation(&format!("bowline, for {server}"), env!("CARGO_PKG_VERSION"));
        let offer =
            OfferedLists { tools: true, prompts: true, resources: true, basis: OfferBasis::ServerUnknown };
        (initialize_result(self.revision, &capabilities, &identity, Some(&instructions)), offer)
    }
}

impl OfferedLists {
    /// Whether the lists were offered before the server had answered.
    pub(crate) fn is_speculative(self) -> bool {
        self.basis == OfferBasis::ServerUnknown
    }

    /// The notifications which say that the offered lists have changed.
    pub(crate) fn change_notifications(self) -> impl Iterator<Item = &'static str> {
        [
            (self.tools, method::TOOLS_CHANGED),
            (self.prompts, method::PROMPTS_CHANGED),
            (self.resources, method::RESOURCES_CHANGED),
        ]
        .into_iter()
        .filter_map(|(offered, method)| offered.then_some(method))
    }
}

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

fn initialize_result(
    revision: Revision,
    capabilities: &Json,
    server: &Json,
    instructions: Option<&str>,
) -> Json {
    let mut edit = Edit::new()
        .set_str("protocolVersion", revision.as_str())
        .set("capabilities", capabilities)
        .set("serverInfo", server);
    if let Some(instructions) = instructions {
        edit = edit.set_str("instructions", instructions);
    }
    edit.apply(None).expect("a new object is one")
}

fn implementation(name: &str, version: &str) -> Json {
    Json::encode(&json!({ "name": name, "version": version })).expect("an object is JSON")
}

/// Declares `listChanged` on every offered list: a change that the server does not announce is
/// detected after a reconnect, and hosts listen only where `listChanged` is declared. The rest
/// stays as the server wrote it.
fn with_list_changed(capabilities: Json) -> Json {
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

/// Removes `tasks` from the capabilities of a host: requests about tasks are not forwarded to
/// hosts.
fn without_tasks(capabilities: Json) -> Json {
    edit_object(capabilities, |capabilities| {
        capabilities.remove("tasks");
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
    use bowline::view::Capabilities;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn params(version: &str) -> InitializeParams {
        InitializeParams::parse(Some(&json(&format!(r#"{{"protocolVersion":"{version}"}}"#))))
    }

    fn peer(revision: Revision, capabilities: &str) -> Peer {
        let capabilities = Capabilities::decode(&json(capabilities)).unwrap();
        Peer { revision, capabilities, server: None, instructions: None }
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
            let (answer, _) = params(asked).build_result(&peer(server, "{}"));
            let told: String = answer.member("protocolVersion").unwrap().decode().unwrap();
            assert_eq!(told, agreed.as_str(), "{asked} and {server}");
        }
    }

    #[test]
    fn capabilities_pass_with_lists_that_can_change() {
        let offered = r#"{"x":1.0,"tools":{"a":1e400},"prompts":{"listChanged":false},"logging":{}}"#;
        let (answer, offer) = params("2025-06-18").build_result(&peer(Revision::V2025_06_18, offered));
        assert_eq!(
            answer.member("capabilities").unwrap().as_str(),
            r#"{"x":1.0,"tools":{"a":1e400,"listChanged":true},"prompts":{"listChanged":true},"logging":{}}"#
        );
        assert_eq!(
            offer,
            OfferedLists { tools: true, prompts: true, resources: false, basis: OfferBasis::ServerKnown }
        );
    }

    #[test]
    fn what_cannot_be_bridged_is_not_offered() {
        let offered = r#"{"logging":{},"resources":{"subscribe":true},"x":1}"#;
        let (answer, _) = params("2025-11-25").build_result(&peer(Revision::V2026_07_28, offered));
        let told: Value = answer.member("capabilities").unwrap().decode().unwrap();
        assert_eq!(told, json!({"resources": {"listChanged": true}, "x": 1}));
    }

    #[test]
    fn a_host_without_manners_is_let_in() {
        for params in [None, Some("[]"), Some(r#"{"protocolVersion":7,"clientInfo":{},"capabilities":[]}"#)] {
            let hello = InitializeParams::parse(params.map(json).as_ref());
            assert_eq!((hello.revision, hello.capabilities.as_str()), (Revision::NEWEST_LEGACY, "{}"));
        }
        let told =
            InitializeParams::parse(Some(&json(r#"{"capabilities":{"roots":{},"tasks":{"list":{}}}}"#)));
        assert_eq!(told.capabilities.as_str(), r#"{"roots":{}}"#);
    }
}
