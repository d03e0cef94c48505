//! Owns the way from a tree to raw entries. Each dialect says where its servers are and what their
//! keys mean; reading a value of the right type is common to both.

mod auth;
mod fields;
mod hooks;
mod host;
mod host_auth;
mod native;
mod program;
mod serve;
mod transport;
mod views;

pub(crate) use auth::own_auth_key;
pub(crate) use fields::Fields;
pub(crate) use hooks::{HookEvents, HookList, UnreadHooks, decode_hook};
pub(crate) use host::choose_server_names;
pub use host_auth::split_plain_command;
pub(crate) use native::{ServerList, UndecodedTable, decode_table};
pub(crate) use views::{ToolLists, ViewEntry, ViewList};

use crate::raw::{RawFile, RawServer};
use crate::report::{LocatedValue, Location, Report};
use crate::source::FileFormat;
use crate::tree::{Key, Node};

/// A server entry whose keys are not yet decoded.
pub(crate) struct ServerEntry {
    pub(crate) name: String,
    /// Location of its name.
    pub(crate) place: Location,
    fields: Vec<(Key, Node)>,
}

/// Splits a document into its servers and the tables for all of them, none of them decoded.
pub(crate) fn read_document(format: FileFormat, root: Node, report: &mut Report<'_>) -> RawFile {
    match format {
        FileFormat::Toml => native::read_document(root, report),
        FileFormat::Json => {
            let servers = LocatedValue::new(host::read_servers(root, report), Location::root());
            RawFile { servers: Some(servers), ..RawFile::default() }
        }
    }
}

/// Decodes the keys of one server.
pub(crate) fn decode_server(
    format: FileFormat,
    entry: &mut ServerEntry,
    report: &mut Report<'_>,
) -> RawServer {
    let fields = std::mem::take(&mut entry.fields);
    match format {
        FileFormat::Toml => native::decode(fields, &entry.place, report),
        FileFormat::Json => host::decode(fields, &entry.place, report),
    }
}
