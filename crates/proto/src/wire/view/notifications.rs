//! What notifications carry. Each decodes the `params` of its method.

use super::ViewError;
use super::read::Object;
use crate::wire::{Id, Json, meta};

/// `notifications/progress` (PR-02).
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Which request it is about.
    pub token: Id,
    /// How far it is.
    pub progress: f64,
    /// How far it goes, if known.
    pub total: Option<f64>,
    /// What is being done. Untrusted.
    pub message: Option<Box<str>>,
}

/// `notifications/message` (LG-03).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// How bad it is.
    pub level: Level,
    /// Which part of the server speaks.
    pub logger: Option<Box<str>>,
    /// Anything, untrusted. `null` if there is none.
    pub data: Json,
}

/// How bad a log message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the levels of syslog")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// `notifications/cancelled` (CN-03, CN-05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Which request. Without one, or with one that is no id, the notification means nothing.
    pub request: Option<Id>,
    /// Why. Untrusted.
    pub reason: Option<Box<str>>,
}

/// `notifications/resources/updated` (RS-03).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUpdated {
    /// Which resource; it may lie below the one that was subscribed to.
    pub uri: Box<str>,
}

/// `notifications/subscriptions/acknowledged` (SB-02): what the server will really send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Changes of the tool list.
    pub tools: bool,
    /// Changes of the prompt list.
    pub prompts: bool,
    /// Changes of the resource list.
    pub resources: bool,
    /// Changes of these resources.
    pub resource_uris: Vec<Box<str>>,
    /// Changes of these tasks.
    pub task_ids: Vec<Box<str>>,
}

/// `notifications/elicitation/complete` of 2025-11-25 (EL-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElicitationComplete {
    /// Which one is done.
    pub id: Box<str>,
}

/// Which subscription a modern notification or final result belongs to (SB-03).
pub fn subscription_id(params: &Json) -> Option<Id> {
    let meta = Object::of(params).ok()?.meta()?;
    id(&Object::of(&meta).ok()?, meta::SUBSCRIPTION_ID)
}

fn id(object: &Object<'_>, name: &str) -> Option<Id> {
    object.json(name).and_then(Id::from_json)
}

impl Progress {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let object = Object::of(params)?;
        Ok(Self {
            token: id(&object, "progressToken")
                .ok_or_else(|| object.misfit("progressToken", "a string or number"))?,
            progress: object.value("progress").ok_or_else(|| object.misfit("progress", "a number"))?,
            total: object.value("total"),
            message: object.string("message").map(Into::into),
        })
    }
}

impl LogMessage {
    /// Decodes the parameters. A level of no known name counts as `info`.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let object = Object::of(params)?;
        Ok(Self {
            level: object.string("level").and_then(|level| Level::of(&level)).unwrap_or(Level::Info),
            logger: object.string("logger").map(Into::into),
            data: object.any("data").unwrap_or_else(|| Json::of(&()).expect("null is JSON")),
        })
    }
}

impl Level {
    /// All, the least bad first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// A level by its name, in any case; `warn` is seen in the wild.
    pub fn of(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("warn") {
            return Some(Self::Warning);
        }
        Self::ALL.into_iter().find(|level| name.eq_ignore_ascii_case(level.as_str()))
    }

    /// The level's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl Cancelled {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let object = Object::of(params)?;
        Ok(Self { request: id(&object, "requestId"), reason: object.string("reason").map(Into::into) })
    }
}

impl ResourceUpdated {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        Ok(Self { uri: Object::of(params)?.required("uri")? })
    }
}

impl Acknowledged {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let filter = Object::of(params)?.required_object("notifications")?;
        let filter = Object::of(&filter)?;
        let flag = |name| filter.flag(name).unwrap_or(false);
        Ok(Self {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resources: flag("resourcesListChanged"),
            resource_uris: filter.value("resourceSubscriptions").unwrap_or_default(),
            task_ids: filter.value("taskIds").unwrap_or_default(),
        })
    }
}

impl ElicitationComplete {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        Ok(Self { id: Object::of(params)?.required("elicitationId")? })
    }
}
