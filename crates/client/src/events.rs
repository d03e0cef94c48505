//! What a server says without being asked.

use bowline_proto::wire::Json;

/// A notification of the server, in the order it was sent.
///
/// Progress of a call goes to that call and does not appear here.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The tools changed; list them again.
    ToolsChanged,
    /// The prompts changed.
    PromptsChanged,
    /// The resources changed.
    ResourcesChanged,
    /// One resource changed.
    ResourceUpdated {
        /// Which.
        uri: String,
    },
    /// A log line of the server: untrusted.
    Log(Json),
    /// Any other notification.
    Other {
        /// Its method.
        method: Box<str>,
        /// Its params.
        params: Option<Json>,
    },
}

impl Event {
    pub(crate) fn of(method: Box<str>, params: Option<Json>) -> Self {
        use bowline_proto::wire::method as name;
        match (&*method, &params) {
            (name::TOOLS_CHANGED, _) => Self::ToolsChanged,
            (name::PROMPTS_CHANGED, _) => Self::PromptsChanged,
            (name::RESOURCES_CHANGED, _) => Self::ResourcesChanged,
            (name::LOG, Some(params)) => Self::Log(params.clone()),
            (name::RESOURCE_UPDATED, Some(given)) => match given.member("uri").map(|uri| uri.decode()) {
                Some(Ok(uri)) => Self::ResourceUpdated { uri },
                _ => Self::Other { method, params },
            },
            _ => Self::Other { method, params },
        }
    }
}
