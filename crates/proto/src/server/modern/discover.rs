//! [`Discovery`]: what a modern host learns from `server/discover`.

use super::results::{complete_result, set_cache_hint};
use crate::revision::Revision;
use crate::wire::object::Edit;
use crate::wire::view::CacheHint;
use crate::wire::{Json, method};

/// The result of `server/discover`.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The revisions that are served, of both eras, the preferred one first.
    pub versions: Vec<Revision>,
    /// The server capabilities for modern hosts: an object.
    pub capabilities: Json,
    /// The name and version of the server: an `Implementation`.
    pub server_info: Json,
    /// Instructions for the model of the host.
    pub instructions: Option<String>,
    /// How long the result may be cached, and for whom.
    pub cache: CacheHint,
}

impl Discovery {
    /// Writes the result of `server/discover`.
    // GW-01, GW-06
    pub fn to_result(&self) -> Json {
        let versions: Vec<&str> = self.versions.iter().map(|revision| revision.as_str()).collect();
        let versions = Json::encode(&versions).expect("a list is JSON");
        let mut edit = Edit::new()
            .set_str("resultType", "complete")
            .set("supportedVersions", &versions)
            .set("capabilities", &self.capabilities);
        if let Some(instructions) = &self.instructions {
            edit = edit.set_str("instructions", instructions);
        }
        let result = edit.apply(None).and_then(|result| set_cache_hint(&result, self.cache));
        let result = result.and_then(|result| complete_result(method::DISCOVER, &result, &self.server_info));
        result.expect("a new object is one")
    }
}

/// The capabilities of a legacy server, without what modern hosts do not know: `tasks` of
/// 2025-11-25, which is another protocol than the tasks extension. Anything but an object counts as
/// no capabilities.
pub fn capabilities_for_modern_host(capabilities: &Json) -> Json {
    Edit::new().remove("tasks").apply(Some(capabilities)).unwrap_or_else(|_| Json::empty_object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::handshake::implementation;
    use crate::wire::view::{CacheScope, DiscoverResult, ResultType, result_type};

    // GW-01, GW-06
    #[test]
    fn result_is_what_a_client_reads() {
        let discovery = Discovery {
            versions: vec![Revision::V2026_07_28, Revision::V2025_11_25],
            capabilities: Json::try_from(r#"{"tools":{"listChanged":true}}"#).unwrap(),
            server_info: implementation("g", "1"),
            instructions: Some("Be \"brief\".".into()),
            cache: CacheHint { ttl_ms: 60_000, scope: CacheScope::Public },
        };
        let result = discovery.to_result();
        assert_eq!(
            result.as_str(),
            r#"{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{"listChanged":true}},"instructions":"Be \"brief\".","ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"g","version":"1"}}}"#
        );
        assert_eq!(result_type(&result), ResultType::Complete);
        let read = DiscoverResult::decode(&result).unwrap();
        assert_eq!(read.cache, discovery.cache);
        assert_eq!(read.instructions(), discovery.instructions);
        assert_eq!(&*read.server.unwrap().name, "g");
        assert!(read.capabilities.tools.unwrap().list_changed);
        let bare = Discovery { instructions: None, cache: CacheHint::default(), ..discovery };
        let bare = DiscoverResult::decode(&bare.to_result()).unwrap();
        assert_eq!(bare.instructions(), None);
        assert_eq!(bare.json.member("ttlMs").unwrap().as_str(), "0");
        assert_eq!(bare.json.member("cacheScope").unwrap().as_str(), r#""private""#);
    }

    #[test]
    fn legacy_tasks_are_not_offered() {
        // TN-10
        let legacy = Json::try_from(r#"{"tasks":{"list":{}},"logging":{},"x":1.0}"#).unwrap();
        assert_eq!(capabilities_for_modern_host(&legacy).as_str(), r#"{"logging":{},"x":1.0}"#);
        assert_eq!(capabilities_for_modern_host(&Json::try_from("7").unwrap()), Json::empty_object());
    }
}
