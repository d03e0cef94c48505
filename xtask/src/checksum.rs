//! Writes SHA-256 sums in the format of `sha256sum`.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use ring::digest;

/// Returns the sum in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    digest::digest(&digest::SHA256, bytes).as_ref().iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Returns lines in the format of `sha256sum --check`.
pub(crate) fn format_checksums(files: &[impl AsRef<Path>]) -> Result<String> {
    let mut lines = String::new();
    for file in files {
        let file = file.as_ref();
        let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.file_name().context("a file has a name")?.to_string_lossy();
        writeln!(lines, "{}  {name}", sha256_hex(&bytes))?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        fs::write(&file, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  abc\n";
        assert_eq!(format_checksums(&[&file]).unwrap(), expected);
    }
}
