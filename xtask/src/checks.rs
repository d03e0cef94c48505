//! Rules of the project that no compiler knows.

pub(crate) mod deny;
pub(crate) mod doc_paths;
mod length;
mod licence;
mod paths;
pub(crate) mod purity;
