//! The server every client is measured against: quick, correct in both protocol eras, and the same
//! over HTTP and pipes.

mod answer;
pub(crate) mod http;
pub(crate) mod stdio;
mod tools;
