//! What goes into the `_meta` of one request, beyond what goes into all of a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bowline_proto::revision::Era;
use bowline_proto::trace::TraceContext;
use bowline_proto::wire::object::{Edit, NotAnObject};
use bowline_proto::wire::view::Level;
use bowline_proto::wire::{Json, meta};

use super::{CallOptions, Live, Shared};

/// Asked within the caller's own future, so that its span is the current one.
pub(crate) type Tracer = Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>;

impl Shared {
    /// The params with what this call adds to their `_meta`. `None`: nothing, which is what most calls add.
    pub(super) fn dressed(
        &self,
        live: &Live,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Option<Json>, NotAnObject> {
        let level = match live.peer.era() {
            // LG-02: with each request, or there are none.
            Era::Modern => options.log_level.or_else(|| self.log_level()),
            Era::Legacy => None,
        };
        let traced = options.trace.clone().or_else(|| self.tracer.as_ref()?());
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

    /// The level that modern servers are asked for with every call.
    fn log_level(&self) -> Option<Level> {
        let place = self.log_level.load(Ordering::Relaxed);
        place.checked_sub(1).and_then(|place| Level::ALL.get(usize::from(place)).copied())
    }

    pub(crate) fn set_log_level(&self, level: Level) {
        self.log_level.store(level as u8 + 1, Ordering::Relaxed);
    }
}
