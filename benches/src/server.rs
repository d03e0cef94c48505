//! The server every client is measured against: quick, correct in both protocol eras, and the same
//! over HTTP and pipes. Beside it one made with rmcp, which is there to be killed.

mod answer;
pub(crate) mod http;
pub(crate) mod rmcp;
pub(crate) mod stdio;
mod tools;
