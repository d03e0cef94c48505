//! Fuzzes responses of token endpoints.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bowline_auth::fuzzing::token_answer(input));
