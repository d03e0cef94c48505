//! Reads from a Linux program which version of the GNU C library it needs, and which libraries.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use object::{
    Endianness,
    elf::{DT_NEEDED, FileHeader64},
    read::elf::{Dyn as _, FileHeader as _, SectionHeader as _},
};

use super::target::{System, Target};

/// What a program needs of the system that it runs on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// The lowest version of the GNU C library; `None` if the program needs none.
    pub(crate) glibc: Option<(u32, u32)>,
    /// File names of shared libraries, such as `libc.so.6`.
    pub(crate) libraries: BTreeSet<String>,
}

impl Requirements {
    /// Reads what a program of a target needs; nothing that is known if the target is not Linux.
    pub(crate) fn read(target: &Target, program: &[u8]) -> Result<Self> {
        match target.system {
            System::LinuxGnu | System::LinuxMusl => {}
            System::MacOs | System::Windows => return Ok(Self::default()),
        }
        Self::parse(program).context("the program is not a Linux program of 64 bits")
    }

    fn parse(data: &[u8]) -> Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let mut found = Self::default();
        for section in sections.iter() {
            if let Some((entries, link)) = section.dynamic(endian, data)? {
                let strings = sections.strings(endian, data, link)?;
                for entry in entries.iter().filter(|entry| entry.d_tag(endian) == DT_NEEDED) {
                    let name = entry.string(endian, strings)?;
                    found.libraries.insert(String::from_utf8_lossy(name).into_owned());
                }
            }
            if let Some((mut needs, link)) = section.gnu_verneed(endian, data)? {
                let strings = sections.strings(endian, data, link)?;
                while let Some((_, mut versions)) = needs.next()? {
                    while let Some(version) = versions.next()? {
                        let name = String::from_utf8_lossy(version.name(endian, strings)?);
                        found.glibc = found.glibc.max(parse_glibc_version(&name));
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Returns the version in the name of a symbol version such as `GLIBC_2.34` or `GLIBC_2.2.5`.
fn parse_glibc_version(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_other_libraries_do_not_count() {
        assert_eq!(parse_glibc_version("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(parse_glibc_version("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(parse_glibc_version("GLIBC_PRIVATE"), None);
        assert_eq!(parse_glibc_version("GCC_4.2.0"), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
    fn this_program_needs_the_c_library() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let target = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let found = Requirements::read(&target, &program).unwrap();
        assert!(found.libraries.contains("libc.so.6"), "{found:?}");
        assert!(found.glibc.is_some_and(|version| version >= (2, 17)), "{found:?}");
    }

    #[test]
    fn what_is_not_a_program_is_refused() {
        let target = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let error = Requirements::read(&target, b"#!/bin/sh").unwrap_err();
        assert_eq!(error.to_string(), "the program is not a Linux program of 64 bits");
    }
}
