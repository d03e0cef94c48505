//! The settings of one server, and the errors that name it.

use std::sync::Arc;
use std::time::Duration;

use bowline_config::Timeouts;
use bowline_proto::client::calls::Limits;
use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::trace::TraceContext;
use bowline_proto::via::Via;
use bowline_proto::wire::object::NotAnObject;
use bowline_proto::wire::view::ViewError;
use bowline_proto::wire::{Json, extension};

use super::{CallOptions, Failure};
use crate::error::{Error, ErrorKind};
use crate::handler::required_capability;
use crate::layer::Layers;

/// The settings of one server. They do not change while the connection lasts.
pub(crate) struct ServerSettings {
    pub(crate) name: Arc<str>,
    pub(crate) timeouts: Timeouts,
    /// Maximum time that a call waits for a server that is down.
    pub(crate) reconnect_wait: Duration,
    /// Maximum size of a message from the server, in bytes.
    pub(crate) message_limit: usize,
    /// Delay before a tracked list is fetched after the server announced a change.
    pub(crate) list_change_delay: Duration,
    /// Configured transport: `stdio`, `http` or `sse`.
    pub(crate) transport: &'static str,
    pub(crate) declaration: ClientDeclaration,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) layers: Layers,
}

/// Returns the trace context of a request. Called within the caller's own future, so that its span
/// is the current one.
pub(crate) type Tracer = Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>;

/// What this client declares of itself to servers.
pub(crate) struct ClientDeclaration {
    /// The host's `Implementation` object.
    pub(crate) client_info: Json,
    /// The `ClientCapabilities` object that the handler declares.
    pub(crate) capabilities: Json,
    /// Capabilities declared to modern servers: those of the handler plus those of this crate.
    pub(crate) modern_capabilities: Json,
    /// The gateways that the host has passed.
    pub(crate) via: Via,
}

impl ServerSettings {
    /// The timeouts of a call with these options.
    pub(crate) fn limits(&self, options: &CallOptions) -> Limits {
        let idle = options.idle.unwrap_or(self.timeouts.idle);
        Limits { idle, total: options.total.unwrap_or(self.timeouts.total.max(idle)) }
    }

    /// Maximum time that a call waits for a link.
    pub(crate) fn link_timeout(&self, options: &CallOptions) -> Duration {
        let limits = self.limits(options);
        limits.idle.min(limits.total)
    }

    pub(crate) fn fault_error(&self, method: &str, fault: Fault) -> Error {
        self.request_error(method, Failure::Fault(fault))
    }

    /// Turns a decoding error into a fault: a result that does not fit its method is the server's
    /// fault.
    pub(crate) fn decode_result<T>(
        &self,
        method: &str,
        json: &Json,
        view: Result<T, ViewError>,
    ) -> Result<T, Error> {
        view.map_err(|error| {
            let fault = Fault::protocol(Misbehavior::BadResult)
                .with_note(error.to_string())
                .with_body(json.as_bytes());
            self.fault_error(method, fault)
        })
    }

    pub(crate) fn not_offered(&self, what: &'static str, method: &str) -> Error {
        Error::new(ErrorKind::NotOffered(what), &self.name, method)
    }

    pub(crate) fn usage_error(&self, method: &str, error: NotAnObject) -> Error {
        Error::new(ErrorKind::Usage(error.to_string()), &self.name, method)
    }

    pub(crate) fn request_error(&self, method: &str, failure: Failure) -> Error {
        let kind = match failure {
            Failure::Server(error) => ErrorKind::Server(error),
            Failure::Fault(fault) => ErrorKind::Fault(fault),
            Failure::Declined(error) => ErrorKind::Declined(error),
            Failure::Usage(what) => ErrorKind::Usage(what.to_owned()),
            Failure::Session(refused) => return self.request_error(method, refused.into_failure()),
            Failure::LinkSuperseded => ErrorKind::Fault(Fault::before_sending(Cause::Closed)),
        };
        Error::new(kind, &self.name, method)
    }
}

impl ClientDeclaration {
    /// Whether the host declared the capability for this method of the server (LC-05, MR-07).
    pub(crate) fn allows(&self, method: &str) -> bool {
        required_capability(method).is_some_and(|capability| self.capabilities.member(capability).is_some())
    }

    /// Whether modern servers were told that a call may become a task (TN-01).
    pub(crate) fn has_tasks(&self) -> bool {
        let extensions = self.modern_capabilities.member("extensions");
        extensions.is_some_and(|extensions| extensions.member(extension::TASKS).is_some())
    }

    /// Whether servers were told that changed roots are announced.
    pub(crate) fn has_roots_changed(&self) -> bool {
        let roots = self.capabilities.member("roots");
        roots.and_then(|roots| roots.member("listChanged")).is_some_and(|changed| changed.as_str() == "true")
    }

    /// Whether servers were told that a person can be sent to a URL.
    pub(crate) fn has_url_elicitation(&self) -> bool {
        self.capabilities.member("elicitation").is_some_and(|how| how.member("url").is_some())
    }
}
