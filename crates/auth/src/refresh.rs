//! Owns the refresh of a token: once, across all processes that share the login.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `due` | when a token is refreshed |
//! | `core` | what a refresh does next; no I/O |
//! | `driver` | performs these steps |

pub(crate) mod core;
pub(crate) mod driver;
pub(crate) mod due;

#[cfg(test)]
mod sim;
