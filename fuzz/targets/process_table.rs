//! What the system tells of its processes, in which every name is a stranger's.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bowline_transport::process::fuzzing::table(input));
