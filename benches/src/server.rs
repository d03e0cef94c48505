//! The server that every client is measured against: fast, correct in both protocol eras, and the
//! same over HTTP and pipes. A second one, built with rmcp, is there to be killed.

pub(crate) mod http;
mod response;
pub(crate) mod rmcp;
pub(crate) mod stdio;
mod tools;
