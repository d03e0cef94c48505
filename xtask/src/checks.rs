//! Checks of project rules that the compiler does not know.

mod advisories;
pub(crate) mod deny;
pub(crate) mod doc_paths;
mod length;
mod paths;
pub(crate) mod purity;
