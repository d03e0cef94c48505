//! [`ListenStream`]: one `subscriptions/listen` request of a host, from its acknowledgment to its
//! end.
//!
//! The driver sends the acknowledgment first, passes every notification of the server to
//! [`ListenStream::tag_notification`], and sends what that returns.

use std::collections::BTreeSet;

use super::Refusal;
use super::request::ModernRequest;
use super::results::{complete_result, set_meta};
use crate::wire::object::Edit;
use crate::wire::outgoing::{self, Frame};
use crate::wire::view::{Capabilities, ResourceUpdate};
use crate::wire::{Id, Json, extension, meta, method};

/// The notifications that a host asks for, or that it is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenFilter {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Changes of the list of resources.
    pub resources: bool,
    /// Changes of these resources, and of resources below them.
    pub resource_uris: BTreeSet<Box<str>>,
    /// Changes of these tasks.
    pub task_ids: BTreeSet<Box<str>>,
}

/// The state of one stream.
#[derive(Debug)]
pub struct ListenStream {
    /// The id of the request as JSON, which tags every message.
    id: Json,
    /// What is granted. `None` once the stream has ended.
    granted: Option<ListenFilter>,
}

/// The last messages of a stream that the server ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenEnd {
    /// The response to the request.
    pub result: Frame,
    /// The notification that follows the response on a pipe. It is not sent over HTTP.
    pub cancellation: Frame,
}

/// Maximum number of resources, and of tasks, of one stream. Requests for more are refused.
pub const MAX_LISTEN_ITEMS: usize = 1_000;

impl ListenFilter {
    /// Reads what the params of `subscriptions/listen` ask for.
    // GW-08
    pub fn parse(params: Option<&Json>, request: &ModernRequest) -> Result<Self, Refusal> {
        let filter = params.and_then(|params| params.member("notifications")).filter(Json::is_object);
        let filter = filter.ok_or_else(|| Refusal::invalid_params("notifications must be an object"))?;
        let parsed = Self {
            tools: read_flag(&filter, "toolsListChanged")?,
            prompts: read_flag(&filter, "promptsListChanged")?,
            resources: read_flag(&filter, "resourcesListChanged")?,
            resource_uris: read_names(&filter, "resourceSubscriptions")?,
            task_ids: read_names(&filter, "taskIds")?,
        };
        // TN-08
        if !parsed.task_ids.is_empty() && !request.declares_tasks() {
            return Err(Refusal::undeclared_tasks());
        }
        Ok(parsed)
    }

    /// Leaves out what a server with these capabilities does not send.
    // GW-08
    #[must_use]
    pub fn limit_to(self, capabilities: &Capabilities) -> Self {
        let resources = capabilities.resources.unwrap_or_default();
        Self {
            tools: self.tools && capabilities.tools.is_some_and(|tools| tools.list_changed),
            prompts: self.prompts && capabilities.prompts.is_some_and(|prompts| prompts.list_changed),
            resources: self.resources && resources.list_changed,
            resource_uris: if resources.subscribe { self.resource_uris } else { BTreeSet::new() },
            task_ids: match capabilities.extension(extension::TASKS) {
                Some(_) => self.task_ids,
                None => BTreeSet::new(),
            },
        }
    }

    /// Whether a notification is among those of the filter.
    pub fn includes(&self, method: &str, params: Option<&Json>) -> bool {
        match method {
            method::TOOLS_CHANGED => self.tools,
            method::PROMPTS_CHANGED => self.prompts,
            method::RESOURCES_CHANGED => self.resources,
            method::RESOURCE_UPDATED => {
                let update = params.and_then(|params| ResourceUpdate::decode(params).ok());
                update.is_some_and(|update| self.includes_resource(&update.uri))
            }
            method::TASK => {
                let id = params.and_then(|params| params.member("taskId"));
                let id = id.and_then(|id| id.decode::<String>().ok());
                id.is_some_and(|id| self.task_ids.contains(&*id))
            }
            _ => false,
        }
    }

    /// Whether a resource or one above it is subscribed to: a server may report the part of a
    /// resource that has changed.
    fn includes_resource(&self, uri: &str) -> bool {
        let mut parents = uri.match_indices('/').map(|(at, _)| at);
        self.resource_uris.contains(uri)
            || parents
                .any(|at| self.resource_uris.contains(&uri[..at]) || self.resource_uris.contains(&uri[..=at]))
    }

    /// Writes the filter. What it does not include is left out.
    pub fn to_json(&self) -> Json {
        let yes = Json::encode(&true).expect("a boolean is JSON");
        let (uris, tasks) = (list_json(&self.resource_uris), list_json(&self.task_ids));
        let members = [
            ("toolsListChanged", &yes, self.tools),
            ("promptsListChanged", &yes, self.prompts),
            ("resourcesListChanged", &yes, self.resources),
            ("resourceSubscriptions", &uris, !self.resource_uris.is_empty()),
            ("taskIds", &tasks, !self.task_ids.is_empty()),
        ];
        let included = members.into_iter().filter(|(_, _, is_included)| *is_included);
        let edit = included.fold(Edit::new(), |edit, (name, value, _)| edit.set(name, value));
        edit.apply(None).expect("a new object is one")
    }
}

impl ListenStream {
    /// Opens the stream of a request. Returns its acknowledgment too, which is its first message.
    ///
    /// `granted` is what the host asked for, limited to what is offered.
    // GW-08
    pub fn open(id: &Id, granted: ListenFilter) -> (Self, Frame) {
        let id = match id {
            Id::Int(number) => Json::encode(number).expect("a number is JSON"),
            Id::Text(text) => text.detached(),
        };
        let params = Edit::new().set("notifications", &granted.to_json()).apply(None);
        let stream = Self { id, granted: Some(granted) };
        let params = stream.tag(&params.expect("a new object is one"));
        (stream, outgoing::notification(method::LISTEN_ACKNOWLEDGED, Some(&params)))
    }

    /// What the host is granted. `None` once the stream has ended.
    pub fn granted(&self) -> Option<&ListenFilter> {
        self.granted.as_ref()
    }

    /// Writes a notification with the tag of this stream. `None` if it is not granted, or if the
    /// stream has ended.
    // GW-08
    pub fn tag_notification(&self, method: &str, params: Option<&Json>) -> Option<Frame> {
        let granted = self.granted.as_ref()?;
        if !granted.includes(method, params) {
            return None;
        }
        let params = params.filter(|params| params.is_object()).cloned().unwrap_or_else(Json::empty_object);
        Some(outgoing::notification(method, Some(&self.tag(&params))))
    }

    /// Ends the stream, for example because the server stops. `None` if it has ended before.
    // GW-08
    pub fn end(&mut self, server_info: &Json) -> Option<ListenEnd> {
        let result = self.end_with_result(server_info)?;
        Some(ListenEnd {
            result: outgoing::response(&Id::from_json(self.id.clone())?, Ok(&result)),
            cancellation: self.cancellation(),
        })
    }

    /// The notification that follows the response on a pipe.
    // GW-08
    pub fn cancellation(&self) -> Frame {
        let canceled = Edit::new().set("requestId", &self.id).apply(None).expect("a new object is one");
        outgoing::notification(method::CANCELLED, Some(&self.tag(&canceled)))
    }

    /// Ends the stream as [`ListenStream::end`] does. Returns the result of the request alone.
    pub fn end_with_result(&mut self, server_info: &Json) -> Option<Json> {
        self.granted.take()?;
        let result = complete_result(method::LISTEN, &self.tag(&Json::empty_object()), server_info);
        Some(result.expect("tagged params are an object"))
    }

    /// Ends the stream because the host has closed or canceled it. Nothing more is sent.
    // GW-09
    pub fn close(&mut self) {
        self.granted = None;
    }

    /// Sets the subscription id in `_meta` of an object.
    fn tag(&self, object: &Json) -> Json {
        let meta = set_meta(object.member("_meta"), meta::SUBSCRIPTION_ID, &self.id);
        Edit::new().set("_meta", &meta).apply(Some(object)).expect("only objects are tagged")
    }
}

fn read_flag(filter: &Json, name: &str) -> Result<bool, Refusal> {
    match filter.member(name).filter(|flag| !flag.is_null()) {
        None => Ok(false),
        Some(flag) => flag.decode().map_err(|_| Refusal::invalid_params(format!("{name} must be a boolean"))),
    }
}

fn read_names(filter: &Json, name: &str) -> Result<BTreeSet<Box<str>>, Refusal> {
    let Some(list) = filter.member(name).filter(|list| !list.is_null()) else { return Ok(BTreeSet::new()) };
    let names: BTreeSet<Box<str>> =
        list.decode().map_err(|_| Refusal::invalid_params(format!("{name} must be a list of strings")))?;
    if names.len() > MAX_LISTEN_ITEMS {
        return Err(Refusal::invalid_params(format!("{name} has more than {MAX_LISTEN_ITEMS} elements")));
    }
    Ok(names)
}

fn list_json(names: &BTreeSet<Box<str>>) -> Json {
    Json::encode(names).expect("a list is JSON")
}

#[cfg(test)]
mod tests;
