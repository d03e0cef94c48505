//! What the concurrent code beside this file is built from. Its models (`loom`) put loom's types in the place of these.

pub(super) use std::sync::{Mutex, MutexGuard};
