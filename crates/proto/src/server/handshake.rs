//! The handshake of the legacy era: [`InitializeParams`] of a host, and the [`ServerOffer`] that it
//! gets in return.

use serde_json::json;

use crate::revision::{Era, Revision};
use crate::via::Via;
use crate::wire::object::Edit;
use crate::wire::view::{Capabilities, Implementation};
use crate::wire::{Json, extension, method};

/// The params of the `initialize` of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializeParams {
    /// The revision it requests, or the newest legacy one if that cannot be used.
    pub revision: Revision,
    /// The client capabilities it declares: an object.
    pub capabilities: Json,
    /// Its name and version: an `Implementation`.
    pub client_info: Json,
    /// The gateways that it says to have passed.
    pub via: Via,
}

/// The result of `initialize`: the revision and everything else that a host is offered.
#[derive(Clone, Debug)]
pub struct ServerOffer {
    /// The agreed revision.
    pub revision: Revision,
    /// The server capabilities: an object.
    pub capabilities: Json,
    /// The name and version of the server: an `Implementation`.
    pub server_info: Json,
    /// Instructions for the model of the host.
    pub instructions: Option<String>,
}

/// The lists that a host was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedLists {
    /// Whether `tools` was offered.
    pub tools: bool,
    /// Whether `prompts` was offered.
    pub prompts: bool,
    /// Whether `resources` was offered.
    pub resources: bool,
}

impl InitializeParams {
    /// Reads the params of `initialize`. Missing or odd members are no reason to refuse a host.
    pub fn parse(params: Option<&Json>) -> Self {
        let member = |name: &str| params.and_then(|params| params.member(name));
        let requested = member("protocolVersion").and_then(|version| version.decode::<String>().ok());
        // A modern revision has no handshake; a host that sends one for it gets the newest that has
        // (LC-02).
        let revision = requested
            .and_then(|requested| Revision::parse(&requested))
            .filter(|revision| revision.era() == Era::Legacy)
            .unwrap_or(Revision::NEWEST_LEGACY);
        // A malformed identity is better left out than passed on.
        let client_info = member("clientInfo").filter(|info| Implementation::decode(info).is_ok());
        Self {
            revision,
            capabilities: member("capabilities").filter(Json::is_object).unwrap_or_else(Json::empty_object),
            client_info: client_info.unwrap_or_else(|| implementation("unknown host", "0")),
            via: Via::of_params(params),
        }
    }

    /// The revision of a session with this host, if ours is `newest` at most: the older of the two.
    ///
    /// A host that speaks an older one than the server ignores what it does not know; a host that
    /// speaks a newer one must not expect what the server does not send.
    // LC-02
    pub fn agreed_revision(&self, newest: Revision) -> Revision {
        self.revision.min(newest)
    }

    /// Whether the host declares tasks of 2026-07-28.
    pub fn declares_tasks(&self) -> bool {
        let extensions = self.capabilities.member("extensions");
        extensions.is_some_and(|extensions| extensions.member(extension::TASKS).is_some())
    }
}

impl ServerOffer {
    /// Writes the result of `initialize`.
    pub fn to_result(&self) -> Json {
        let mut edit = Edit::new()
            .set_str("protocolVersion", self.revision.as_str())
            .set("capabilities", &self.capabilities)
            .set("serverInfo", &self.server_info);
        if let Some(instructions) = &self.instructions {
            edit = edit.set_str("instructions", instructions);
        }
        edit.apply(None).expect("a new object is one")
    }
}

impl OfferedLists {
    /// Every list.
    pub const ALL: Self = Self { tools: true, prompts: true, resources: true };

    /// The lists among these capabilities.
    pub fn among(capabilities: &Capabilities) -> Self {
        Self {
            tools: capabilities.tools.is_some(),
            prompts: capabilities.prompts.is_some(),
            resources: capabilities.resources.is_some(),
        }
    }

    /// The notifications which say that the offered lists have changed.
    pub fn change_notifications(self) -> impl Iterator<Item = &'static str> {
        [
            (self.tools, method::TOOLS_CHANGED),
            (self.prompts, method::PROMPTS_CHANGED),
            (self.resources, method::RESOURCES_CHANGED),
        ]
        .into_iter()
        .filter_map(|(is_offered, method)| is_offered.then_some(method))
    }
}

/// Writes an `Implementation`.
pub fn implementation(name: &str, version: &str) -> Json {
    Json::encode(&json!({ "name": name, "version": version })).expect("an object is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::view::InitializeResult;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    /// LC-02: the requested revision if we speak it, else our newest; never newer than the server.
    #[test]
    fn lc_02_the_older_of_both_revisions() {
        use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
        for (requested, newest, agreed) in [
            ("2025-06-18", V2025_06_18, V2025_06_18),
            ("2024-11-05", V2025_11_25, V2024_11_05),
            ("2025-11-25", V2025_03_26, V2025_03_26),
            ("1999-01-01", V2025_06_18, V2025_06_18),
            ("2026-07-28", V2025_11_25, V2025_11_25),
        ] {
            let params = json(&format!(r#"{{"protocolVersion":"{requested}"}}"#));
            let params = InitializeParams::parse(Some(&params));
            assert_eq!(params.agreed_revision(newest), agreed, "{requested} and {newest}");
        }
    }

    #[test]
    fn odd_params_get_the_newest_legacy_revision() {
        for params in [None, Some("[]"), Some(r#"{"protocolVersion":7,"clientInfo":{},"capabilities":[]}"#)] {
            let params = InitializeParams::parse(params.map(json).as_ref());
            assert_eq!(params.revision, Revision::NEWEST_LEGACY);
            assert_eq!(params.capabilities.as_str(), "{}");
            assert_eq!(params.client_info.as_str(), r#"{"name":"unknown host","version":"0"}"#);
        }
    }

    #[test]
    fn capabilities_and_identity_are_kept_as_they_came() {
        let params = InitializeParams::parse(Some(&json(
            r#"{"capabilities":{"x":1.0,"extensions":{"io.modelcontextprotocol/tasks":{}}},"clientInfo":{"name":"n", "version":"1"}}"#,
        )));
        assert_eq!(
            params.capabilities.as_str(),
            r#"{"x":1.0,"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
        );
        assert_eq!(params.client_info.as_str(), r#"{"name":"n", "version":"1"}"#);
        assert!(params.declares_tasks());
        assert!(!InitializeParams::parse(None).declares_tasks());
    }

    #[test]
    fn clients_read_the_offer_back() {
        let offer = ServerOffer {
            revision: Revision::V2025_06_18,
            capabilities: json(r#"{"tools":{},"resources":{"subscribe":true}}"#),
            server_info: implementation("s", "1"),
            instructions: Some("Be brief.".into()),
        };
        let result = InitializeResult::decode(&offer.to_result()).unwrap();
        assert_eq!(&*result.protocol_version, "2025-06-18");
        assert_eq!(result.instructions(), offer.instructions);
        let lists = OfferedLists::among(&result.capabilities);
        assert_eq!(lists, OfferedLists { prompts: false, ..OfferedLists::ALL });
        let changes: Vec<_> = lists.change_notifications().collect();
        assert_eq!(changes, [method::TOOLS_CHANGED, method::RESOURCES_CHANGED]);
        let bare = ServerOffer { instructions: None, ..offer };
        assert_eq!(InitializeResult::decode(&bare.to_result()).unwrap().instructions(), None);
    }
}
