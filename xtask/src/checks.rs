//! Rules of the project that no compiler knows.

mod advisories;
pub(crate) mod deny;
pub(crate) mod doc_paths;
mod length;
mod paths;
pub(crate) mod purity;
