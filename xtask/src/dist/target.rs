//! Defines `Target`: a platform that has packages, and what each package format calls it.

use std::fmt;

use anyhow::{Error, Result, bail};
use serde::Deserialize;

/// A platform of the release.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Target {
    triple: String,
    pub(crate) cpu: Cpu,
    pub(crate) system: System,
}

/// The processor of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cpu {
    Aarch64,
    X86_64,
}

/// The operating system of a target, with the C library that its programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    LinuxGnu,
    LinuxMusl,
    MacOs,
    Windows,
}

impl Target {
    pub(crate) fn parse(triple: &str) -> Result<Self> {
        let (cpu, rest) = triple.split_once('-').unwrap_or_default();
        let cpu = match cpu {
            "aarch64" => Cpu::Aarch64,
            "x86_64" => Cpu::X86_64,
            _ => bail!("there are no packages for the processor of `{triple}`"),
        };
        let system = match rest {
            "apple-darwin" => System::MacOs,
            "pc-windows-msvc" => System::Windows,
            "unknown-linux-gnu" => System::LinuxGnu,
            "unknown-linux-musl" => System::LinuxMusl,
            _ => bail!("there are no packages for the system of `{triple}`"),
        };
        Ok(Self { triple: triple.to_owned(), cpu, system })
    }

    pub(crate) fn triple(&self) -> &str {
        &self.triple
    }

    /// Returns the file name of the program.
    pub(crate) fn program_name(&self) -> &'static str {
        if self.system == System::Windows { "bowline.exe" } else { "bowline" }
    }

    /// Returns the name of the npm package for this platform, without its scope. It begins with
    /// `process.platform` and `process.arch`, by which the starting script finds it.
    pub(crate) fn npm_name(&self) -> String {
        let suffix = if self.system == System::LinuxMusl { "-musl" } else { "" };
        format!("{}-{}{suffix}", self.npm_os(), self.npm_cpu())
    }

    /// Returns what Node calls the operating system.
    pub(crate) fn npm_os(&self) -> &'static str {
        match self.system {
            System::LinuxGnu | System::LinuxMusl => "linux",
            System::MacOs => "darwin",
            System::Windows => "win32",
        }
    }

    /// Returns what Node calls the processor.
    pub(crate) fn npm_cpu(&self) -> &'static str {
        match self.cpu {
            Cpu::Aarch64 => "arm64",
            Cpu::X86_64 => "x64",
        }
    }

    /// Returns what npm calls the C library, where there are several.
    pub(crate) fn npm_libc(&self) -> Option<&'static str> {
        match self.system {
            System::LinuxGnu => Some("glibc"),
            System::LinuxMusl => Some("musl"),
            System::MacOs | System::Windows => None,
        }
    }

    /// Returns what Debian calls the processor, if the target is a Debian.
    pub(crate) fn debian_architecture(&self) -> Option<&'static str> {
        (self.system == System::LinuxGnu).then_some(self.container_architecture())
    }

    /// Returns what container images call the processor.
    pub(crate) fn container_architecture(&self) -> &'static str {
        match self.cpu {
            Cpu::Aarch64 => "arm64",
            Cpu::X86_64 => "amd64",
        }
    }
}

impl TryFrom<String> for Target {
    type Error = Error;

    fn try_from(triple: String) -> Result<Self> {
        Self::parse(&triple)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.triple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_format_has_its_own_name_of_a_platform() {
        let names = |triple: &str| {
            let target = Target::parse(triple).unwrap();
            (target.npm_name(), target.npm_libc(), target.debian_architecture(), target.program_name())
        };
        let gnu = ("linux-x64".to_owned(), Some("glibc"), Some("amd64"), "bowline");
        assert_eq!(names("x86_64-unknown-linux-gnu"), gnu);
        let musl = ("linux-arm64-musl".to_owned(), Some("musl"), None, "bowline");
        assert_eq!(names("aarch64-unknown-linux-musl"), musl);
        assert_eq!(names("aarch64-apple-darwin"), ("darwin-arm64".to_owned(), None, None, "bowline"));
        assert_eq!(names("x86_64-pc-windows-msvc"), ("win32-x64".to_owned(), None, None, "bowline.exe"));
    }

    #[test]
    fn a_platform_without_packages_is_named() {
        let error = Target::parse("riscv64gc-unknown-linux-gnu").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there are no packages for the processor of `riscv64gc-unknown-linux-gnu`"
        );
    }
}
