//! Everything that servers send without being asked: requests, required input and the URLs that a
//! person must visit.

pub(super) mod input_required;
pub(super) mod roots;
pub(super) mod server_requests;
pub(super) mod url_elicitation;
pub(super) mod url_guard;
