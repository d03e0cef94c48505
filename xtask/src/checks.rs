//! Checks of project rules that the compiler does not know.

pub(crate) mod deny;
pub(crate) mod doc_links;
pub(crate) mod doc_paths;
mod doc_versions;
pub(crate) mod features;
mod length;
pub(crate) mod package;
pub(crate) mod packages;
pub(crate) mod purity;
