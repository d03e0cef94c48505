//! [`ModernRequest`]: the `_meta` of one request of a modern host.

use super::Refusal;
use crate::revision::{Era, Revision};
use crate::wire::view::{Implementation, LogLevel, LogMessage};
use crate::wire::{Id, Json, code, extension, meta, method};

/// What a modern request says about itself and its host. Nothing is known from earlier requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModernRequest {
    /// The revision of the request.
    pub revision: Revision,
    /// The capabilities that the host declares for this request: an object.
    pub client_capabilities: Json,
    /// The claimed name and version of the host: a valid `Implementation`, for display and logs.
    pub client_info: Option<Json>,
    /// The least severe log message that the host wants. `None`: it wants none.
    pub log_level: Option<LogLevel>,
    /// The token for progress of this request: a string or a number. `None`: it wants none.
    pub progress_token: Option<Json>,
}

/// The keys of `_meta` that are read.
const META_KEYS: [&str; 5] = [
    meta::PROTOCOL_VERSION,
    meta::CLIENT_CAPABILITIES,
    meta::CLIENT_INFO,
    meta::LOG_LEVEL,
    meta::PROGRESS_TOKEN,
];

impl ModernRequest {
    /// Reads and validates the `_meta` of a request. `supported` are all revisions that are served
    /// here, of both eras.
    // GW-01, GW-02
    pub fn parse(params: Option<&Json>, supported: &[Revision]) -> Result<Self, Refusal> {
        let meta = params.and_then(|params| params.member("_meta"));
        let [version, capabilities, client_info, level, token] =
            meta.map_or([const { None }; 5], |meta| meta.members_named(META_KEYS));
        let version = version.and_then(|version| version.decode::<String>().ok());
        let Some(version) = version else { return Err(missing_meta(meta::PROTOCOL_VERSION)) };
        // The revision comes first: another one may not require the rest.
        let revision = Revision::parse(&version).filter(|revision| supported.contains(revision));
        let revision = match revision {
            Some(revision) if revision.era() == Era::Modern => revision,
            // A legacy revision has no such requests. It is left out of the list, or the host might
            // repeat what it just sent.
            Some(_) => {
                let is_modern = |revision: &Revision| revision.era() == Era::Modern;
                let modern: Vec<_> = supported.iter().copied().filter(is_modern).collect();
                return Err(Refusal::unsupported_version(&version, &modern));
            }
            None => return Err(Refusal::unsupported_version(&version, supported)),
        };
        let Some(client_capabilities) = capabilities.filter(Json::is_object) else {
            return Err(missing_meta(meta::CLIENT_CAPABILITIES));
        };
        let log_level = match level.filter(|level| !level.is_null()) {
            None => None,
            Some(level) => match level.decode::<String>().ok().and_then(|name| LogLevel::from_name(&name)) {
                Some(level) => Some(level),
                None => return Err(invalid_meta("there is no such log level")),
            },
        };
        Ok(Self {
            revision,
            client_capabilities,
            // A malformed identity is better left out than passed on.
            client_info: client_info.filter(|info| Implementation::decode(info).is_ok()),
            log_level,
            progress_token: token.filter(|token| Id::from_json(token.clone()).is_some()),
        })
    }

    /// Whether the host declares a capability, by its path of names, such as `["sampling", "tools"]`.
    pub fn declares(&self, path: &[&str]) -> bool {
        super::declares(&self.client_capabilities, path)
    }

    /// Whether the host declares tasks of 2026-07-28, so that a call may become a task.
    pub fn declares_tasks(&self) -> bool {
        self.declares(&["extensions", extension::TASKS])
    }

    /// Whether a notification may be sent on the response stream of this request: progress, if it
    /// has this token, and log messages, if they are severe enough. Changes of lists and resources
    /// are for subscriptions.
    // GW-09
    pub fn accepts_notification(&self, method: &str, params: Option<&Json>) -> bool {
        match method {
            method::PROGRESS => {
                let token = params.and_then(|params| params.member(meta::PROGRESS_TOKEN));
                token.is_some() && token == self.progress_token
            }
            method::LOG => {
                let message = params.and_then(|params| LogMessage::decode(params).ok());
                message.zip(self.log_level).is_some_and(|(message, least)| message.level >= least)
            }
            _ => false,
        }
    }
}

fn missing_meta(key: &str) -> Refusal {
    Refusal::bad_request(code::INVALID_PARAMS, format!("_meta has no valid {key}"))
}

fn invalid_meta(message: &str) -> Refusal {
    Refusal::bad_request(code::INVALID_PARAMS, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SERVED: [Revision; 2] = [Revision::V2026_07_28, Revision::V2025_11_25];

    fn meta() -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"sampling": {"tools": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "h", "version": "1"},
            "io.modelcontextprotocol/logLevel": "warning",
            "progressToken": "p",
        })
    }

    fn parse(meta: &Value) -> Result<ModernRequest, Refusal> {
        ModernRequest::parse(Some(&Json::encode(&json!({ "_meta": meta })).unwrap()), &SERVED)
    }

    fn with(key: &str, value: Value) -> Result<ModernRequest, Refusal> {
        let mut meta = meta();
        meta[key] = value;
        parse(&meta)
    }

    #[test]
    fn complete_meta_is_read() {
        let request = parse(&meta()).unwrap();
        assert_eq!(request.revision, Revision::V2026_07_28);
        assert_eq!(request.client_capabilities.as_str(), r#"{"sampling":{"tools":{}}}"#);
        assert_eq!(request.client_info.as_ref().unwrap().as_str(), r#"{"name":"h","version":"1"}"#);
        assert_eq!(request.log_level, Some(LogLevel::Warning));
        assert_eq!(request.progress_token.as_ref().unwrap().as_str(), r#""p""#);
        assert!(request.declares(&["sampling", "tools"]));
        assert!(!request.declares_tasks());
    }

    // GW-02: each member dropped in turn.
    #[test]
    fn required_members_are_required_and_the_rest_is_not() {
        for (dropped, is_required) in [
            ("io.modelcontextprotocol/protocolVersion", true),
            ("io.modelcontextprotocol/clientCapabilities", true),
            ("io.modelcontextprotocol/clientInfo", false),
            ("io.modelcontextprotocol/logLevel", false),
            ("progressToken", false),
        ] {
            let mut meta = meta();
            meta.as_object_mut().unwrap().remove(dropped);
            match parse(&meta) {
                Ok(_) => assert!(!is_required, "{dropped}"),
                Err(refusal) => {
                    assert!(is_required, "{dropped}");
                    assert_eq!((refusal.status, refusal.error.code), (400, -32602), "{dropped}");
                    assert!(refusal.error.message.contains(dropped), "{}", refusal.error.message);
                }
            }
        }
        for params in [None, Some("{}"), Some("[]"), Some(r#"{"_meta":null}"#), Some(r#"{"_meta":"x"}"#)] {
            let params = params.map(|text| Json::try_from(text).unwrap());
            let refusal = ModernRequest::parse(params.as_ref(), &SERVED).unwrap_err();
            assert_eq!((refusal.status, refusal.error.code), (400, -32602), "{params:?}");
        }
    }

    #[test]
    fn members_of_the_wrong_type_count_as_missing() {
        // GW-02
        for version in [json!(20_260_728), json!(null), json!(["2026-07-28"])] {
            assert_eq!(with(meta::PROTOCOL_VERSION, version).unwrap_err().error.code, -32602);
        }
        for capabilities in [json!(null), json!([]), json!("{}"), json!(true)] {
            assert_eq!(with(meta::CLIENT_CAPABILITIES, capabilities).unwrap_err().error.code, -32602);
        }
        assert_eq!(with(meta::CLIENT_INFO, json!({"version": "1"})).unwrap().client_info, None);
        for token in [json!({}), json!(null), json!(true)] {
            assert_eq!(with(meta::PROGRESS_TOKEN, token).unwrap().progress_token, None);
        }
        let refusal = with(meta::LOG_LEVEL, json!("loud")).unwrap_err();
        assert_eq!((refusal.status, refusal.error.code), (400, -32602));
    }

    // GW-01
    #[test]
    fn other_revisions_are_refused_with_those_that_are_served() {
        for (requested, supported) in [
            ("1900-01-01", r#"["2026-07-28","2025-11-25"]"#),
            ("2027-01-01", r#"["2026-07-28","2025-11-25"]"#),
            ("", r#"["2026-07-28","2025-11-25"]"#),
            // Known, but not served.
            ("2024-11-05", r#"["2026-07-28","2025-11-25"]"#),
            // Served, but by a handshake.
            ("2025-11-25", r#"["2026-07-28"]"#),
        ] {
            let refusal = with(meta::PROTOCOL_VERSION, json!(requested)).unwrap_err();
            assert_eq!((refusal.status, refusal.error.code), (400, -32022), "{requested}");
            let data = refusal.error.data.unwrap();
            assert_eq!(data.member("supported").unwrap().as_str(), supported, "{requested}");
            assert_eq!(data.member("requested").unwrap().decode::<String>().unwrap(), requested);
        }
        // The revision is decided on first.
        let bare = json!({"io.modelcontextprotocol/protocolVersion": "2030-01-01"});
        assert_eq!(parse(&bare).unwrap_err().error.code, -32022);
    }

    // GW-09
    #[test]
    fn only_notifications_of_the_request_are_accepted() {
        let accepts = |request: &ModernRequest, method: &str, params: Value| {
            request.accepts_notification(method, Some(&Json::encode(&params).unwrap()))
        };
        let request = parse(&meta()).unwrap();
        assert!(accepts(&request, "notifications/progress", json!({"progressToken": "p", "progress": 1})));
        assert!(!accepts(&request, "notifications/progress", json!({"progressToken": "q", "progress": 1})));
        assert!(!accepts(&request, "notifications/progress", json!({"progress": 1})));
        for (level, is_accepted) in [("debug", false), ("notice", false), ("warning", true), ("alert", true)]
        {
            let message = json!({"level": level, "data": 1});
            assert_eq!(accepts(&request, "notifications/message", message), is_accepted, "{level}");
        }
        for other in ["notifications/tools/list_changed", "notifications/cancelled", "notifications/tasks"] {
            assert!(!accepts(&request, other, json!({})), "{other}");
        }
        let quiet = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let quiet = parse(&quiet).unwrap();
        assert!(!accepts(&quiet, "notifications/message", json!({"level": "emergency", "data": 1})));
        assert!(!accepts(&quiet, "notifications/progress", json!({"progress": 1})));
        assert!(!quiet.accepts_notification("notifications/progress", None));
    }
}
