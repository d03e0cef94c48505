//! Views of the `params` of notifications.

use super::ViewError;
use super::read::Object;
use crate::named::named;
use crate::wire::{Id, Json, meta};

/// The parameters of `notifications/progress`.
// PR-02
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The progress token of the request.
    pub token: Id,
    /// The progress so far.
    pub progress: f64,
    /// The progress at the end, if known.
    pub total: Option<f64>,
    /// A message about the progress. Untrusted.
    pub message: Option<Box<str>>,
}

impl Progress {
    /// Creates progress without a total and without a message.
    pub fn new(token: Id, progress: f64) -> Self {
        Self { token, progress, total: None, message: None }
    }
}

/// The parameters of `notifications/message`.
// LG-03
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogMessage {
    /// The severity.
    pub level: LogLevel,
    /// The name of the server's logger.
    pub logger: Option<Box<str>>,
    /// The logged data, `null` if there is none. Untrusted.
    pub data: Json,
}

named! {
    /// The severity of a log message. The least severe comes first.
    #[non_exhaustive]
    pub enum LogLevel {
        /// Details for debugging.
        Debug = "debug",
        /// General information.
        Info = "info",
        /// A normal but significant event.
        Notice = "notice",
        /// A condition that may become an error.
        Warning = "warning",
        /// An error.
        Error = "error",
        /// A failure of a component.
        Critical = "critical",
        /// Something that must be acted on at once.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

/// The parameters of `notifications/cancelled`.
// CN-03, CN-05
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancellation {
    /// The id of the request. Without a valid id the notification means nothing.
    pub request: Option<Id>,
    /// The reason. Untrusted.
    pub reason: Option<Box<str>>,
}

/// The parameters of `notifications/resources/updated`.
// RS-03
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUpdate {
    /// The URI of the resource, which may be below the one that was subscribed to.
    pub uri: Box<str>,
}

/// The parameters of `notifications/subscriptions/acknowledged`: what the server will really send.
// SB-02
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionAcknowledgment {
    /// Whether it sends changes of the tool list.
    pub tools: bool,
    /// Whether it sends changes of the prompt list.
    pub prompts: bool,
    /// Whether it sends changes of the resource list.
    pub resources: bool,
    /// The resources whose changes it sends.
    pub resource_uris: Vec<Box<str>>,
    /// The tasks whose changes it sends.
    pub task_ids: Vec<Box<str>>,
}

/// The parameters of `notifications/elicitation/complete` of 2025-11-25.
// EL-11
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElicitationCompletion {
    /// The id of the elicitation.
    pub id: Box<str>,
}

/// The id of the subscription that a modern notification or final result belongs to.
// SB-03
pub fn subscription_id(params: &Json) -> Option<Id> {
    let meta = Object::parse(params).ok()?.meta()?;
    decode_id(&Object::parse(&meta).ok()?, meta::SUBSCRIPTION_ID)
}

fn decode_id(object: &Object<'_>, name: &str) -> Option<Id> {
    object.json(name).and_then(Id::from_json)
}

impl Progress {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(params)?;
        Ok(Self {
            token: decode_id(&object, "progressToken")
                .ok_or_else(|| object.misfit("progressToken", "a string or number"))?,
            progress: object.value("progress").ok_or_else(|| object.misfit("progress", "a number"))?,
            total: object.value("total"),
            message: object.string("message").map(Into::into),
        })
    }
}

impl LogMessage {
    /// Decodes the parameters. An unknown level counts as `info`.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(params)?;
        Ok(Self {
            level: object
                .string("level")
                .and_then(|level| LogLevel::from_name(&level))
                .unwrap_or(LogLevel::Info),
            logger: object.string("logger").map(Into::into),
            data: object.any_json("data").unwrap_or_else(|| Json::encode(&()).expect("null is JSON")),
        })
    }
}

impl LogLevel {
    /// The level of that name, ignoring case. Some servers write `warn` for `warning`.
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("warn") {
            return Some(Self::Warning);
        }
        Self::ALL.into_iter().find(|level| name.eq_ignore_ascii_case(level.as_str()))
    }
}

impl Cancellation {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(params)?;
        Ok(Self { request: decode_id(&object, "requestId"), reason: object.string("reason").map(Into::into) })
    }
}

impl ResourceUpdate {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        Ok(Self { uri: Object::parse(params)?.required("uri")? })
    }
}

impl SubscriptionAcknowledgment {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let filter = Object::parse(params)?.required_object("notifications")?;
        let filter = Object::parse(&filter)?;
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

impl ElicitationCompletion {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        Ok(Self { id: Object::parse(params)?.required("elicitationId")? })
    }
}
