//! The server's lists: what they contained, which results are cached, and when they are fetched.

pub(super) mod catalog;
pub(super) mod result_cache;
pub(super) mod tracking;
