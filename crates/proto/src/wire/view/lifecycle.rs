//! Views of `initialize` and `server/discover`: the server's identity and capabilities.
// Group LC

use super::read::{Object, decode_strings, text};
use super::{CacheHint, ViewError};
use crate::wire::{Json, meta};

/// The result of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializeResult {
    /// The result as received.
    pub json: Json,
    /// The revision that the server chose.
    pub protocol_version: Box<str>,
    /// The server's capabilities.
    pub capabilities: Capabilities,
    /// The server's claimed name and version.
    pub server: Option<Implementation>,
}

/// The result of `server/discover`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverResult {
    /// The result as received.
    pub json: Json,
    /// The revisions that the server speaks, in its order.
    pub supported_versions: Vec<Box<str>>,
    /// The server's capabilities.
    pub capabilities: Capabilities,
    /// The server's claimed name and version.
    pub server: Option<Implementation>,
    /// How long the result may be cached.
    pub cache: CacheHint,
}

/// The claimed name and version of a peer, for display and logs, never for decisions.
// LC-10
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Implementation {
    /// The object as received.
    pub json: Json,
    /// The name.
    pub name: Box<str>,
    /// The version. Empty if the server gives none.
    pub version: Box<str>,
}

/// The capabilities of a server. Features that are absent here must not be used.
// LC-05
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The capabilities as received.
    pub json: Json,
    /// Support for `tools/*`.
    pub tools: Option<FeatureCapability>,
    /// Support for `resources/*`.
    pub resources: Option<FeatureCapability>,
    /// Support for `prompts/*`.
    pub prompts: Option<FeatureCapability>,
    /// Support for `logging/setLevel`.
    pub logging: bool,
    /// Support for `completion/complete`.
    pub completions: bool,
}

/// The capability of one feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeatureCapability {
    /// Whether the server notifies about changes of the list.
    pub list_changed: bool,
    // RS-03
    /// Whether the server notifies about changes of single items. Resources only.
    pub subscribe: bool,
}

impl InitializeResult {
    /// Decodes the result. Missing capabilities count as empty.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        Ok(Self {
            protocol_version: object.required("protocolVersion")?,
            capabilities: Capabilities::from_result(&object),
            server: object.object("serverInfo").and_then(|json| Implementation::decode(&json).ok()),
            json: json.clone(),
        })
    }

    /// Instructions for the model. Untrusted.
    // LC-07
    pub fn instructions(&self) -> Option<String> {
        text(&self.json, "instructions")
    }
}

impl DiscoverResult {
    /// Decodes the result. `supportedVersions` is required, since it identifies a modern server.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, versions) = decode_strings(json, "supportedVersions")?;
        if !versions.is_present {
            return Err(object.misfit("supportedVersions", "an array"));
        }
        Ok(Self {
            supported_versions: versions.items,
            capabilities: Capabilities::from_result(&object),
            server: server_info(json),
            cache: CacheHint::from_object(&object),
            json: json.clone(),
        })
    }

    /// Instructions for the model. Untrusted.
    // LC-07
    pub fn instructions(&self) -> Option<String> {
        text(&self.json, "instructions")
    }
}

/// Reads the server's name and version from `_meta` of any modern result, or from `serverInfo`,
/// where older drafts had it.
pub fn server_info(result: &Json) -> Option<Implementation> {
    let object = Object::parse(result).ok()?;
    let from_meta = object.meta().and_then(|json| Object::parse(&json).ok()?.object(meta::SERVER_INFO));
    let info = from_meta.or_else(|| object.object("serverInfo"))?;
    Implementation::decode(&info).ok()
}

described!(Implementation);

impl Implementation {
    /// Decodes an implementation. `name` is required.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        Ok(Self {
            name: object.required("name")?,
            version: object.string("version").unwrap_or_default().into(),
            json: json.clone(),
        })
    }

    /// The URL of its website. Untrusted.
    pub fn website_url(&self) -> Option<String> {
        text(&self.json, "websiteUrl")
    }
}

impl Default for Capabilities {
    /// No capabilities.
    fn default() -> Self {
        Self {
            json: Json::empty_object(),
            tools: None,
            resources: None,
            prompts: None,
            logging: false,
            completions: false,
        }
    }
}

impl Capabilities {
    /// Decodes capabilities.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        Ok(Self {
            tools: FeatureCapability::from_object(&object, "tools"),
            resources: FeatureCapability::from_object(&object, "resources"),
            prompts: FeatureCapability::from_object(&object, "prompts"),
            logging: FeatureCapability::from_object(&object, "logging").is_some(),
            completions: FeatureCapability::from_object(&object, "completions").is_some(),
            json: json.clone(),
        })
    }

    fn from_result(result: &Object<'_>) -> Self {
        let given = result.object("capabilities");
        given.and_then(|json| Self::decode(&json).ok()).unwrap_or_default()
    }

    /// The settings of an extension, if the server has it.
    // LC-15
    pub fn extension(&self, id: &str) -> Option<Json> {
        self.get_path(&["extensions", id])
    }

    /// The value at a path of names, such as `["tasks", "requests", "tools", "call"]`, unless it is
    /// missing, `null` or `false`.
    // TA-01
    pub fn get_path(&self, path: &[&str]) -> Option<Json> {
        path.iter().try_fold(self.json.clone(), |json, name| {
            Object::parse(&json).ok()?.json(name).filter(|json| json.as_bytes() != b"false")
        })
    }
}

impl FeatureCapability {
    /// Decodes one feature. `true` is not an object, but accepted for an empty one.
    fn from_object(object: &Object<'_>, name: &str) -> Option<Self> {
        let settings = object.json(name).filter(|json| json.as_bytes() != b"false")?;
        Some(Object::parse(&settings).map_or_else(
            |_| Self::default(),
            |settings| Self {
                list_changed: settings.flag("listChanged").unwrap_or(false),
                subscribe: settings.flag("subscribe").unwrap_or(false),
            },
        ))
    }
}
