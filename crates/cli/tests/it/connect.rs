//! `bowline connect` between a plain host and a scripted server with armed faults.

pub(crate) mod ambiguous_params;
mod cancellation;
mod decoys;
mod flags;
pub(crate) mod host;
mod modern;
mod signatures;
mod survival;
