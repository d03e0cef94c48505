//! Fuzzes the parser of the system's process table, in which every process name is untrusted.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bowline_transport::process::fuzzing::table(input));
