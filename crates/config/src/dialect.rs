//! Owns the way from a tree to raw entries. Each dialect says where its servers are and what their
//! keys mean; reading a value of the right type is common to both.

mod auth;
mod fields;
mod hooks;
mod host;
mod host_auth;
mod native;
mod program;
mod store;
mod tables;

pub(crate) use hooks::{HookEntry, decode_hook};
pub(crate) use native::suggest_table;
pub(crate) use tables::GlobalTables;

use crate::raw::RawServer;
use crate::report::{Location, Report};
use crate::source::Dialect;
use crate::tree::{Key, Node};

/// A server entry whose keys are not yet decoded.
pub(crate) struct ServerEntry {
    pub(crate) name: String,
    /// Location of its name.
    pub(crate) place: Location,
    fields: Vec<(Key, Node)>,
}

/// A server entry whose keys are decoded.
pub(crate) struct DecodedServer {
    pub(crate) raw: RawServer,
    /// `command` or `url` was given but could not be read, which has been reported. Reporting it as
    /// missing too would be a second complaint about one mistake.
    pub(crate) transport_garbled: bool,
}

/// The contents of one file, not yet decoded.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) servers: Vec<ServerEntry>,
    /// Hooks for all servers.
    pub(crate) hooks: Vec<HookEntry>,
    /// Tables for all servers, such as `[sampling]` and `[auth]`.
    pub(crate) tables: GlobalTables,
}

/// Splits a document into its servers and the tables for all of them.
pub(crate) fn read_document(dialect: Dialect, root: Node, report: &mut Report<'_>) -> Document {
    match dialect {
        Dialect::Toml => native::read_document(root, report),
        Dialect::Json => Document { servers: host::read_servers(root, report), ..Document::default() },
    }
}

/// Decodes the keys of one server.
pub(crate) fn decode_server(
    dialect: Dialect,
    entry: &mut ServerEntry,
    report: &mut Report<'_>,
) -> DecodedServer {
    let fields = std::mem::take(&mut entry.fields);
    match dialect {
        Dialect::Toml => native::decode(fields, &entry.place, report),
        Dialect::Json => host::decode(fields, &entry.place, report),
    }
}
