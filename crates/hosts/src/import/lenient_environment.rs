//! [`LenientEnvironment`]: entries can be compared although variables are not set.

use std::path::Path;

use bowline_config::Environment;

/// An environment in which every variable is set and every file can be read. What is missing is a number
/// that stands for its name, or a URL with that number: one of them fits.
#[derive(Clone, Copy)]
pub(super) struct LenientEnvironment<'a> {
    pub(super) env: &'a dyn Environment,
    /// Whether files are opened at all.
    pub(super) opens_files: bool,
    /// Whether what is missing is a URL.
    pub(super) fills_urls: bool,
}

impl<'a> LenientEnvironment<'a> {
    /// All forms, those with numbers first.
    pub(super) fn all(env: &'a dyn Environment) -> [Self; 4] {
        [(true, false), (false, false), (true, true), (false, true)].map(|(opens_files, fills_urls)| Self {
            env,
            opens_files,
            fills_urls,
        })
    }

    /// A value that is almost always another for another name. A number fits into the port of a URL.
    fn stand_in(self, name: &str) -> String {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let number = 10_000 + hash % 50_000;
        if self.fills_urls { format!("http://unset.invalid:{number}/") } else { number.to_string() }
    }
}

impl Environment for LenientEnvironment<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.env.var(name).or_else(|| Some(self.stand_in(name)))
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        let text = if self.opens_files { self.env.read_file(path).ok() } else { None };
        Ok(text.unwrap_or_else(|| self.stand_in(&path.to_string_lossy())))
    }
}
