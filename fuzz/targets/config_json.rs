//! Fuzzes configuration texts in the dialects of hosts (JSON).
#![no_main]

use bowline_config::FileFormat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        bowline_fuzz::config::check(text, FileFormat::Json);
    }
});
