//! Owns the way from a tree to raw entries. Each dialect says where its servers stand and what
//! their keys mean; reading a value of the right type is common to both.

mod fields;
mod host;
mod native;

use crate::raw::RawServer;
use crate::report::{Place, Report};
use crate::source::Dialect;
use crate::tree::{Key, Node};

/// An entry as found, its keys not yet looked at.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Where its name is written.
    pub(crate) place: Place,
    fields: Vec<(Key, Node)>,
}

/// An entry whose keys have been read.
pub(crate) struct Decoded {
    pub(crate) raw: RawServer,
    /// `command` or `url` was meant but could not be read, which has been reported: to report
    /// it as missing too would be a second complaint about one mistake.
    pub(crate) transport_garbled: bool,
}

/// The servers of a document.
pub(crate) fn entries(dialect: Dialect, root: Node, report: &mut Report<'_>) -> Vec<Entry> {
    match dialect {
        Dialect::Toml => native::entries(root, report),
        Dialect::Json => host::entries(root, report),
    }
}

/// The keys of one server.
pub(crate) fn decode(dialect: Dialect, entry: &mut Entry, report: &mut Report<'_>) -> Decoded {
    let fields = std::mem::take(&mut entry.fields);
    match dialect {
        Dialect::Toml => native::decode(fields, &entry.place, report),
        Dialect::Json => host::decode(fields, &entry.place, report),
    }
}
