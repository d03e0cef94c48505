//! Fuzzes exported logins: the sealed file, and its contents.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bowline_auth::fuzzing::exported_login(input));
