//! Builds the `_meta` of one request, beyond what all requests of a connection carry.

use bowline_proto::revision::Era;
use bowline_proto::trace::TraceContext;
use bowline_proto::wire::object::{Edit, NotAnObject};
use bowline_proto::wire::{Json, meta};

use crate::connection::{CallOptions, Connection, LiveLink};

impl Connection {
    /// Returns the params with this call's `_meta`, or `None` if the call adds nothing, as most do.
    pub(crate) fn params_with_meta(
        &self,
        live: &LiveLink,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Option<Json>, NotAnObject> {
        let level = match live.peer.era() {
            // LG-02: a modern server sends log messages only for requests that ask for them.
            Era::Modern => options.log_level.or_else(|| self.session.log_level()),
            Era::Legacy => None,
        };
        let traced = options.trace.clone().or_else(|| self.server.tracer.as_ref()?());
        if level.is_none() && traced.is_none() && options.meta.is_empty() {
            return Ok(None);
        }
        let old = params.and_then(|params| params.member("_meta"));
        let mut edit = Edit::new();
        for (key, value) in &options.meta {
            edit = edit.set(key.as_str(), value);
        }
        // OT-01
        for (key, value) in traced.iter().flat_map(TraceContext::members) {
            edit = edit.set_str(key, &value);
        }
        if let Some(level) = level {
            edit = edit.set_str(meta::LOG_LEVEL, level.as_str());
        }
        let new = edit.apply(old.as_ref())?;
        Edit::new().set("_meta", &new).apply(params).map(Some)
    }
}
