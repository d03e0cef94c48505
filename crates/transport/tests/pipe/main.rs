//! Messages over pipes.

mod reader;
mod writer;
