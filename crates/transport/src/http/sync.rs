//! Synchronization primitives of `wake_filter`. Its models (`loom`) replace this module with the
//! types of loom.

pub(super) use std::sync::{Mutex, MutexGuard};
