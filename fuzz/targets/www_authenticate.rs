//! Fuzzes the parser of `WWW-Authenticate` headers, one on each line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bowline_auth::fuzzing::challenge(input));
