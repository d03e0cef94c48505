//! Owns the way from a tree to raw entries. Each dialect says where its servers are and what their
//! keys mean; reading a value of the right type is common to both.

mod asks;
mod auth;
mod fields;
mod hooks;
mod host;
mod host_auth;
mod native;
mod program;
mod store;

pub(crate) use asks::Asks;
pub(crate) use hooks::{HookEntry, decode as decode_hook};
pub(crate) use native::table_meant;

use crate::raw::RawServer;
use crate::report::{Place, Report};
use crate::source::Dialect;
use crate::tree::{Key, Node};

/// A server entry whose keys are not yet decoded.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Location of its name.
    pub(crate) place: Place,
    fields: Vec<(Key, Node)>,
}

/// A server entry whose keys are decoded.
pub(crate) struct Decoded {
    pub(crate) raw: RawServer,
    /// `command` or `url` was given but could not be read, which has been reported. Reporting it as
    /// missing too would be a second complaint about one mistake.
    pub(crate) transport_garbled: bool,
}

/// The contents of one file, not yet decoded.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) entries: Vec<Entry>,
    /// Hooks for all servers.
    pub(crate) hooks: Vec<HookEntry>,
    /// Tables for all servers, such as `[sampling]` and `[auth]`.
    pub(crate) asks: Asks,
}

/// Splits a document into its servers and the tables for all of them.
pub(crate) fn document(dialect: Dialect, root: Node, report: &mut Report<'_>) -> Document {
    match dialect {
        Dialect::Toml => native::document(root, report),
        Dialect::Json => Document { entries: host::entries(root, report), ..Document::default() },
    }
}

/// Decodes the keys of one server.
pub(crate) fn decode(dialect: Dialect, entry: &mut Entry, report: &mut Report<'_>) -> Decoded {
    let fields = std::mem::take(&mut entry.fields);
    match dialect {
        Dialect::Toml => native::decode(fields, &entry.place, report),
        Dialect::Json => host::decode(fields, &entry.place, report),
    }
}
