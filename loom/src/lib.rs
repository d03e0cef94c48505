//! Models of concurrent code, which loom runs in every interleaving of their threads and with every
//! value that the memory model allows an atomic load to return. The one model with three threads is
//! bounded in its preemptions.
//!
//! The code under test is the source file of the crate that uses it. It takes its primitives from
//! the module `sync` beside it: the standard library's there, loom's here. The models are functions
//! of this library, because the tests of a package see the included file with its unit tests, which
//! cannot run under loom.

mod wake_filter_models;

pub use wake_filter_models::{
    handover_reaches_the_next_task, look_or_wake_after_rest, two_wakes_during_one_poll, wake_around_a_poll,
    wake_while_looks_run_out,
};

#[path = "../../crates/transport/src/http/wake_filter.rs"]
mod wake_filter;

/// The primitives that the wake filter is built from.
mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}
