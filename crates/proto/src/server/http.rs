//! What the headers and the body of an HTTP request mean: who may send it, to which session it
//! belongs, and in which format it may be answered.

mod accept;
mod guard;
mod post;

pub use accept::AcceptedFormats;
pub use guard::{GuardRefusal, HttpGuard};
pub use post::{
    PostHead, PostRefusal, PostRoute, VersionRefusal, check_initialize_version, check_version, classify_post,
    expects_response,
};
