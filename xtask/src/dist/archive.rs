//! Writes archives whose bytes depend on their content alone: entries are sorted, and times, owners
//! and modes are fixed.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io::{Cursor, Write as _},
};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// The files of an archive, by their path in it, with `/`.
#[derive(Default)]
pub(crate) struct FileSet<'a> {
    files: BTreeMap<String, PackedFile<'a>>,
}

struct PackedFile<'a> {
    is_program: bool,
    bytes: Cow<'a, [u8]>,
}

impl<'a> FileSet<'a> {
    /// Adds a file that everybody may read.
    pub(crate) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Cow<'a, [u8]>>) {
        self.files.insert(path.into(), PackedFile { is_program: false, bytes: bytes.into() });
    }

    /// Adds a file that everybody may run, too.
    pub(crate) fn add_program(&mut self, path: impl Into<String>, bytes: impl Into<Cow<'a, [u8]>>) {
        self.files.insert(path.into(), PackedFile { is_program: true, bytes: bytes.into() });
    }

    /// Returns each file with its path, in the order of the archive.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, file)| (path.as_str(), &*file.bytes))
    }

    /// Returns a tar archive, compressed by gzip. All entries have the time `time`, in seconds since
    /// 1970, and belong to root.
    pub(crate) fn to_tar_gz(&self, time: u64) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let header = |size: usize, mode: u32, kind: tar::EntryType| -> Result<tar::Header> {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(size.try_into()?);
            header.set_mtime(time);
            header.set_uid(0);
            header.set_gid(0);
            header.set_username("root")?;
            header.set_groupname("root")?;
            Ok(header)
        };
        let mut folders = BTreeSet::new();
        for (path, file) in &self.files {
            for folder in parent_folders(path) {
                if folders.insert(folder) {
                    let mut header = header(0, 0o755, tar::EntryType::Directory)?;
                    archive.append_data(&mut header, folder, &[][..])?;
                }
            }
            let mode = if file.is_program { 0o755 } else { 0o644 };
            let mut header = header(file.bytes.len(), mode, tar::EntryType::Regular)?;
            archive
                .append_data(&mut header, path, &*file.bytes)
                .with_context(|| format!("packing {path}"))?;
        }
        gzip(&archive.into_inner()?)
    }

    /// Returns a ZIP archive. Its entries have the first time that the format knows, since a time in
    /// it depends on the time zone.
    pub(crate) fn to_zip(&self) -> Result<Vec<u8>> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (path, file) in &self.files {
            let options = SimpleFileOptions::DEFAULT
                .compression_method(CompressionMethod::Deflated)
                .last_modified_time(zip::DateTime::DEFAULT)
                .unix_permissions(if file.is_program { 0o755 } else { 0o644 });
            archive.start_file(path.as_str(), options).with_context(|| format!("packing {path}"))?;
            archive.write_all(&file.bytes)?;
        }
        Ok(archive.finish()?.into_inner())
    }
}

/// Compresses bytes by gzip, without a name and a time.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    // 255: an unknown system.
    let mut encoder =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Returns an archive of `ar`, which is the outer form of a Debian package. Names have at most 15
/// characters.
pub(crate) fn write_ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8o}{:<10}`\n", 0, 0, 0o100_644, bytes.len());
        archive.extend(header.into_bytes());
        archive.extend(*bytes);
        // Members begin at even offsets.
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

/// Returns the folders above a path, each with a final `/`, the outermost first.
fn parent_folders(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..=at])
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn example() -> FileSet<'static> {
        let mut files = FileSet::default();
        files.add("knot/share/doc/README", &b"read me"[..]);
        files.add_program("knot/bin/knot", &b"program"[..]);
        files
    }

    #[test]
    fn a_tar_archive_has_sorted_entries_with_fixed_times_owners_and_modes() {
        let packed = example().to_tar_gz(1_000_000_000).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(&packed[..]));
        let mut listed = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 1_000_000_000);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            listed.push((entry.path().unwrap().display().to_string(), header.mode().unwrap()));
        }
        let expected = [
            ("knot/", 0o755),
            ("knot/bin/", 0o755),
            ("knot/bin/knot", 0o755),
            ("knot/share/", 0o755),
            ("knot/share/doc/", 0o755),
            ("knot/share/doc/README", 0o644),
        ];
        assert_eq!(listed, expected.map(|(path, mode)| (path.to_owned(), mode)));
    }

    #[test]
    fn a_gzip_file_names_neither_a_time_nor_a_system() {
        let packed = gzip(b"text").unwrap();
        assert_eq!(packed[4..8], [0, 0, 0, 0]);
        assert_eq!(packed[9], 255);
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn a_zip_archive_keeps_that_a_file_is_a_program() {
        let packed = example().to_zip().unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(packed)).unwrap();
        let program = archive.by_name("knot/bin/knot").unwrap();
        assert_eq!(program.unix_mode().map(|mode| mode & 0o777), Some(0o755));
        assert_eq!(program.last_modified().map(|time| time.year()), Some(1980));
    }

    #[test]
    fn members_of_an_ar_archive_begin_at_even_offsets() {
        let archive = write_ar(&[("odd", b"123"), ("even", b"12")], 7);
        let text = String::from_utf8(archive).unwrap();
        let header =
            |name: &str, size: &str| format!("{name:<16}7           0     0     100644  {size:<10}`\n");
        assert_eq!(text, format!("!<arch>\n{}123\n{}12", header("odd", "3"), header("even", "2")));
    }
}
