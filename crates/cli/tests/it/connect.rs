//! `bowline connect`: a plain host on one side, an armed server on the other, the real binary between.

mod decoys;
mod flags;
pub(crate) mod host;
mod signatures;
mod survival;
