//! The server's lists: what they contained, which results are cached, and when they are fetched.

mod annotations;
mod catalog;
pub(super) mod fetch;
#[cfg(feature = "schema")]
mod output_schemas;
#[cfg(not(feature = "schema"))]
#[path = "lists/output_schemas_absent.rs"]
mod output_schemas;
mod result_cache;
mod tracking;

use std::collections::HashMap;

#[cfg(feature = "schema")]
use bowline_proto::wire::Json;
use bowline_proto::wire::mirror::HeaderAnnotations;
use parking_lot::Mutex;

use catalog::Catalog;
use result_cache::ResultCache;
use tracking::ListTracking;

pub(crate) use tracking::DEFAULT_LIST_CHANGE_DELAY;

/// What is known of the lists of one server.
#[derive(Default)]
pub(crate) struct Lists {
    /// `x-mcp-header` annotations of the newest tool list, by tool name. Tools without any are left
    /// out (HM-10).
    annotations: Mutex<HashMap<Box<str>, HeaderAnnotations>>,
    /// Output schemas of the newest tool list, by tool name. Tools without one are left out.
    #[cfg(feature = "schema")]
    output_schemas: Mutex<HashMap<Box<str>, Json>>,
    /// Digests of the server's lists, as last fetched.
    catalog: Mutex<Catalog>,
    /// Cached results of modern servers.
    cache: Mutex<ResultCache>,
    /// Lists that are fetched even if no caller asks for them.
    tracking: ListTracking,
}
