//! Who the server is and what it offers, as the first answer of either era says (group LC).

use super::read::{Object, strings, text};
use super::{CacheHint, ViewError};
use crate::wire::{Json, meta};

/// The answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializeResult {
    /// As it came.
    pub json: Json,
    /// The revision the server wants to speak.
    pub protocol_version: Box<str>,
    /// What it offers.
    pub capabilities: Capabilities,
    /// Who it says it is.
    pub server: Option<Implementation>,
}

/// The answer to `server/discover`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverResult {
    /// As it came.
    pub json: Json,
    /// The revisions it speaks, in its order.
    pub supported_versions: Vec<Box<str>>,
    /// What it offers.
    pub capabilities: Capabilities,
    /// Who it says it is.
    pub server: Option<Implementation>,
    /// How long this may be kept.
    pub cache: CacheHint,
}

/// Who a peer says it is: for display and logs, never for decisions (LC-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implementation {
    /// As it came.
    pub json: Json,
    /// Its name.
    pub name: Box<str>,
    /// Its version. Empty where a server gives none.
    pub version: Box<str>,
}

/// What a server offers. What is not in here must not be asked for (LC-05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// As they came.
    pub json: Json,
    /// `tools/*`
    pub tools: Option<Feature>,
    /// `resources/*`
    pub resources: Option<Feature>,
    /// `prompts/*`
    pub prompts: Option<Feature>,
    /// `logging/setLevel`
    pub logging: bool,
    /// `completion/complete`
    pub completions: bool,
}

/// What a server offers of one feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feature {
    /// It says when the list changes.
    pub list_changed: bool,
    /// It says when one of them changes: resources only (RS-03).
    pub subscribe: bool,
}

impl InitializeResult {
    /// Decodes the result. Absent capabilities are none.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::of(json)?;
        Ok(Self {
            protocol_version: object.required("protocolVersion")?,
            capabilities: Capabilities::of(&object),
            server: object.object("serverInfo").and_then(|json| Implementation::decode(&json).ok()),
            json: json.clone(),
        })
    }

    /// Text for the model, untrusted (LC-07).
    pub fn instructions(&self) -> Option<String> {
        text(&self.json, "instructions")
    }
}

impl DiscoverResult {
    /// Decodes the result. Its `supportedVersions` must be there: they are what tells a modern server.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, versions) = strings(json, "supportedVersions")?;
        if !versions.given {
            return Err(object.misfit("supportedVersions", "an array"));
        }
        Ok(Self {
            supported_versions: versions.items,
            capabilities: Capabilities::of(&object),
            server: server_info(json),
            cache: CacheHint::of(&object),
            json: json.clone(),
        })
    }

    /// Text for the model, untrusted (LC-07).
    pub fn instructions(&self) -> Option<String> {
        text(&self.json, "instructions")
    }
}

/// Who answered, by `_meta` of any modern result, or by `serverInfo`, where older drafts had it.
pub fn server_info(result: &Json) -> Option<Implementation> {
    let object = Object::of(result).ok()?;
    let from_meta = object.meta().and_then(|json| Object::of(&json).ok()?.object(meta::SERVER_INFO));
    let info = from_meta.or_else(|| object.object("serverInfo"))?;
    Implementation::decode(&info).ok()
}

described!(Implementation);

impl Implementation {
    /// Decodes an implementation. It needs a name.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::of(json)?;
        Ok(Self {
            name: object.required("name")?,
            version: object.string("version").unwrap_or_default().into(),
            json: json.clone(),
        })
    }

    /// Its home page. Untrusted.
    pub fn website_url(&self) -> Option<String> {
        text(&self.json, "websiteUrl")
    }
}

impl Default for Capabilities {
    /// Nothing.
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
        let object = Object::of(json)?;
        Ok(Self {
            tools: Feature::of(&object, "tools"),
            resources: Feature::of(&object, "resources"),
            prompts: Feature::of(&object, "prompts"),
            logging: Feature::of(&object, "logging").is_some(),
            completions: Feature::of(&object, "completions").is_some(),
            json: json.clone(),
        })
    }

    fn of(result: &Object<'_>) -> Self {
        let given = result.object("capabilities");
        given.and_then(|json| Self::decode(&json).ok()).unwrap_or_default()
    }

    /// The settings of an extension, if the server has it (LC-15).
    pub fn extension(&self, id: &str) -> Option<Json> {
        self.at(&["extensions", id])
    }

    /// What stands at a path of names, if it is there and neither `null` nor `false`: for instance
    /// `["tasks", "requests", "tools", "call"]` (TA-01).
    pub fn at(&self, path: &[&str]) -> Option<Json> {
        path.iter().try_fold(self.json.clone(), |json, name| {
            Object::of(&json).ok()?.json(name).filter(|json| json.as_bytes() != b"false")
        })
    }
}

impl Feature {
    /// `true` is no object, but what it means is plain.
    fn of(object: &Object<'_>, name: &str) -> Option<Self> {
        let settings = object.json(name).filter(|json| json.as_bytes() != b"false")?;
        Some(Object::of(&settings).map_or_else(
            |_| Self::default(),
            |settings| Self {
                list_changed: settings.flag("listChanged").unwrap_or(false),
                subscribe: settings.flag("subscribe").unwrap_or(false),
            },
        ))
    }
}
