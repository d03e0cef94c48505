//! [`LenientEnvironment`]: entries can be compared although variables are not set.

use std::path::Path;

use bowline_config::Environment;

/// An environment in which every variable is set and every file can be read. What is missing is a number
/// that stands for its name: a number fits everywhere, also into the port of a URL.
pub(super) struct LenientEnvironment<'a>(pub(super) &'a dyn Environment);

impl Environment for LenientEnvironment<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.0.var(name).or_else(|| Some(number_of(name)))
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        self.0.read_file(path).or_else(|_| Ok(number_of(&path.to_string_lossy())))
    }
}

/// A port number that is almost always another for another name.
fn number_of(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (10_000 + hash % 50_000).to_string()
}
