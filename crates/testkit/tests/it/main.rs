//! The test bed, tested with plain clients: a bed that errs would prove the wrong thing.

mod asking;
mod auth;
mod faults;
mod features;
mod legacy;
mod lifecycle;
mod listen;
mod modern;
mod proxy;
mod sse_legacy;
mod stdio;
mod support;
mod tasks;
