//! Fuzzes the metadata documents of servers and authorization servers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bowline_auth::fuzzing::metadata(input));
