//! Fuzzes what a browser or a person brings back from a login.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bowline_auth::fuzzing::callback(input));
