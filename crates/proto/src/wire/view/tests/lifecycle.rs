//! Tests of `initialize`, `server/discover` and notifications.

use super::*;
use crate::wire::Id;

/// LC-01, LC-05, LC-07
#[test]
fn lc_05_the_handshake() {
    let text = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},
        "prompts":{},"logging":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"x":1},
        "serverInfo":{"name":"s","version":"1","title":"S","websiteUrl":"https://s"},"instructions":"do"}"#;
    let result = InitializeResult::decode(&json(text)).unwrap();
    assert_eq!(&*result.protocol_version, "2025-11-25");
    let offers = &result.capabilities;
    assert_eq!(offers.tools, Some(FeatureCapability { list_changed: true, subscribe: false }));
    assert_eq!(offers.resources, Some(FeatureCapability { list_changed: false, subscribe: true }));
    assert_eq!(offers.prompts, Some(FeatureCapability::default()));
    assert!(offers.logging && !offers.completions);
    // TA-01
    assert!(offers.get_path(&["tasks", "requests", "tools", "call"]).is_some());
    assert!(offers.get_path(&["tasks", "cancel"]).is_none());
    let server = result.server.as_ref().unwrap();
    assert_eq!((&*server.name, &*server.version, server.title().as_deref()), ("s", "1", Some("S")));
    assert_eq!(server.website_url().as_deref(), Some("https://s"));
    assert_eq!(result.instructions().as_deref(), Some("do"));
}

#[test]
fn a_sloppy_handshake() {
    let decode = |text: &str| InitializeResult::decode(&json(text));
    let bare = decode(r#"{"protocolVersion":"2024-11-05"}"#).unwrap();
    assert_eq!((bare.capabilities, bare.server), (Capabilities::default(), None));
    let odd = decode(
        r#"{"protocolVersion":"x","capabilities":{"tools":true,"prompts":false,"resources":null,"logging":[]},"serverInfo":{"name":"n"}}"#,
    );
    let odd = odd.unwrap();
    assert_eq!(
        (odd.capabilities.tools, odd.capabilities.prompts),
        (Some(FeatureCapability::default()), None)
    );
    assert!(odd.capabilities.resources.is_none() && odd.capabilities.logging);
    assert_eq!(&*odd.server.unwrap().version, "");
    let missing = decode(r#"{"capabilities":{}}"#).unwrap_err();
    assert_eq!(missing.to_string(), "protocolVersion: expected a string, found nothing");
}

/// LC-10, LC-11, LC-15: identity is in `_meta`; the old place is tolerated.
#[test]
fn lc_11_discovery() {
    let text = r#"{"resultType":"complete","supportedVersions":["2026-07-28",7,"2025-11-25"],
        "capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":60000,"cacheScope":"public",
        "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"1"}},"serverInfo":{"name":"old"}}"#;
    let result = DiscoverResult::decode(&json(text)).unwrap();
    assert_eq!(result.supported_versions.len(), 2);
    assert_eq!(&*result.server.unwrap().name, "m");
    assert!(result.capabilities.extension("io.modelcontextprotocol/tasks").is_some());
    assert!(result.capabilities.extension("other").is_none());
    assert_eq!(result.cache.scope, CacheScope::Public);
    assert_eq!(&*server_info(&json(r#"{"serverInfo":{"name":"old"}}"#)).unwrap().name, "old");
    assert!(DiscoverResult::decode(&json(r#"{"supportedVersions":"2026-07-28"}"#)).is_err());
}

/// PR-02, LG-03, CN-03, RS-03, SB-02, SB-03, EL-11
#[test]
fn pr_02_notifications() {
    let progress =
        Progress::decode(&json(r#"{"progressToken":7,"progress":0.5,"total":2,"message":"m"}"#)).unwrap();
    assert_eq!(
        progress,
        Progress { token: Id::Int(7), progress: 0.5, total: Some(2.0), message: Some("m".into()) }
    );
    for bad in [
        r#"{"progress":1}"#,
        r#"{"progressToken":null,"progress":1}"#,
        r#"{"progressToken":1,"progress":"x"}"#,
    ] {
        assert!(Progress::decode(&json(bad)).is_err(), "{bad}");
    }

    let log = LogMessage::decode(&json(r#"{"level":"WARN","logger":"l","data":{"a": 1}}"#)).unwrap();
    assert_eq!(
        (log.level, log.logger.as_deref(), log.data.as_str()),
        (LogLevel::Warning, Some("l"), r#"{"a": 1}"#)
    );
    let odd = LogMessage::decode(&json(r#"{"level":9}"#)).unwrap();
    assert!(odd.level == LogLevel::Info && odd.data.is_null());
    assert!(LogLevel::Emergency > LogLevel::Debug);

    let cancelled = Cancellation::decode(&json(r#"{"requestId":"a","reason":"r"}"#)).unwrap();
    assert_eq!(cancelled.request, Some(Id::from_string("a")));
    assert_eq!(Cancellation::decode(&json(r#"{"requestId":{}}"#)).unwrap().request, None);

    let updated = r#"{"uri":"file:///a","_meta":{"io.modelcontextprotocol/subscriptionId":9}}"#;
    assert_eq!(&*ResourceUpdate::decode(&json(updated)).unwrap().uri, "file:///a");
    assert_eq!(subscription_id(&json(updated)), Some(Id::Int(9)));
    assert_eq!(subscription_id(&json("{}")), None);

    let text = r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}}"#;
    let acknowledged = SubscriptionAcknowledgment::decode(&json(text)).unwrap();
    assert!(acknowledged.tools && !acknowledged.prompts && acknowledged.resource_uris.len() == 1);
    assert_eq!(&*ElicitationCompletion::decode(&json(r#"{"elicitationId":"e"}"#)).unwrap().id, "e");
}
