//! Messages as they are on the wire.
//!
//! [`parse`] reads the envelope and leaves the rest as slices ([`Json`]); [`object`] edits one object
//! without touching what it does not know; [`view`] decodes results by the method that asked for them.

pub mod mirror;
pub mod object;
pub mod outgoing;
pub mod view;

mod body;
mod id;
mod json;
mod message;
mod names;
mod scan;
mod validate;
mod vector;

pub use body::find_error;
pub use id::Id;
pub use json::Json;
pub use message::{Defect, Malformed, Message, Parsed, RpcError, parse, parse_one};
pub use names::{code, extension, meta, method};
