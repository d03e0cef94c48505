//! JSON-RPC messages: parsing, editing, writing, and typed views.
//!
//! [`parse`] reads the envelope and leaves the rest as slices ([`Json`]); [`object`] edits one
//! object and keeps unknown members; [`outgoing`] writes messages; [`view`] decodes results and
//! parameters by their method.

pub mod mirror;
pub mod object;
pub mod outgoing;
pub mod view;

mod body;
mod id;
mod json;
mod message;
mod names;
mod params;
pub(crate) mod scan;
mod validate;
mod vector;

pub use body::find_error;
pub use id::Id;
pub use json::Json;
pub use message::{
    Defect, MAX_SHOWN_CHARS, MalformedMessage, Message, ParseResult, RpcError, ShortenedText, parse,
    parse_from_host, parse_one,
};
pub use names::{code, extension, meta, method};
