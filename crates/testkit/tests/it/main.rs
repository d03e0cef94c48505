//! The test bed, tested with plain clients: a bed that errs would prove the wrong thing.

mod faults;
mod legacy;
mod lifecycle;
mod modern;
mod proxy;
mod sse_legacy;
mod stdio;
mod support;
