//! Owns how a token is renewed by one of many, once.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `due` | when |
//! | `core` | what a renewal does next, whatever others do meanwhile |
//! | `drive` | how that is carried out |

pub(crate) mod core;
pub(crate) mod drive;
pub(crate) mod due;

#[cfg(test)]
mod sim;
