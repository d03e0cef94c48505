//! Checks of project rules that the compiler does not know.

pub(crate) mod deny;
pub(crate) mod doc_paths;
mod length;
pub(crate) mod purity;
