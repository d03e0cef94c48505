//! Defines `Source`: one configuration text, its path and its format.

use std::path::{Path, PathBuf};

/// One configuration text. Nothing is opened: `path` names the file in messages, and its folder
/// is what relative paths in the text start from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// Where the text came from.
    pub path: PathBuf,
    /// The text.
    pub text: String,
    /// The format it is written in.
    pub format: FileFormat,
}

/// The format of a configuration text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// Our own TOML: `[servers.NAME]`. Unknown keys are errors.
    Toml,
    /// The JSON of hosts: `{"mcpServers": {…}}` or `{"servers": {…}}`, with comments and trailing
    /// commas allowed. Unknown keys concern only the host and become notes.
    Json,
}

impl Source {
    /// Creates a source whose format follows from the extension of `path`, or else from the first
    /// character of the text.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let format = FileFormat::detect(&path, &text);
        Self { path, text, format }
    }

    /// Reads the text as `format`, whatever its name suggests.
    #[must_use]
    pub fn with_format(mut self, format: FileFormat) -> Self {
        self.format = format;
        self
    }

    /// Returns the text without a byte order mark. All offsets count from here.
    pub(crate) fn body(&self) -> &str {
        self.text.strip_prefix('\u{feff}').unwrap_or(&self.text)
    }
}

impl FileFormat {
    fn detect(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("toml") => return Self::Toml,
            Some(extension)
                if extension.eq_ignore_ascii_case("json") || extension.eq_ignore_ascii_case("jsonc") =>
            {
                return Self::Json;
            }
            _ => {}
        }
        // No TOML document can begin with a brace or a slash; JSON with comments may.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with(['{', '/']) { Self::Json } else { Self::Toml }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides_before_the_text() {
        for (path, text, format) in [
            ("a.toml", "{", FileFormat::Toml),
            ("a.TOML", "", FileFormat::Toml),
            ("a.json", "[servers]", FileFormat::Json),
            ("a.jsonc", "", FileFormat::Json),
            ("-", "\u{feff} {}", FileFormat::Json),
            ("-", "// note\n{}", FileFormat::Json),
            ("-", "[servers.a]", FileFormat::Toml),
            ("config", "", FileFormat::Toml),
        ] {
            assert_eq!(Source::new(path, text).format, format, "{path} {text:?}");
        }
    }
}
