//! Writes the Homebrew formula, which installs the tarballs of a release.

use super::{
    metadata::Metadata,
    release_files::Tarball,
    tarball,
    target::{Cpu, System},
};

/// The name of the formula's file.
pub(crate) const FILE_NAME: &str = "bowline.rb";

/// Returns the formula, for the platforms of Homebrew that have a tarball; `None` if there is none.
pub(crate) fn write(metadata: &Metadata, tarballs: &[Tarball<'_>]) -> Option<String> {
    let blocks: Vec<String> = [(System::MacOs, "on_macos"), (System::LinuxGnu, "on_linux")]
        .into_iter()
        .map(|(system, name)| (name, write_downloads(metadata, tarballs, system)))
        .filter(|(_, downloads)| !downloads.is_empty())
        .map(|(name, downloads)| format!("  {name} do\n{downloads}  end"))
        .collect();
    let licenses: Vec<String> = metadata.license.split(" OR ").map(|it| format!("\"{it}\"")).collect();
    let text = TEMPLATE
        .replace("@SUMMARY@", &metadata.summary)
        .replace("@HOMEPAGE@", &metadata.homepage)
        .replace("@VERSION@", &metadata.version)
        .replace("@LICENSE@", &format!("any_of: [{}]", licenses.join(", ")))
        .replace("@TARBALLS@", &blocks.join("\n\n"));
    (!blocks.is_empty()).then_some(text)
}

/// Returns the downloads for a system, one for each processor.
fn write_downloads(metadata: &Metadata, tarballs: &[Tarball<'_>], system: System) -> String {
    let of_system = tarballs.iter().filter(|tarball| tarball.target.system == system);
    let download = |Tarball { target, sha256 }: &Tarball<'_>| {
        let cpu = match target.cpu {
            Cpu::Aarch64 => "on_arm",
            Cpu::X86_64 => "on_intel",
        };
        let url = metadata.download_url(&tarball::file_name(metadata, target));
        format!("    {cpu} do\n      url \"{url}\"\n      sha256 \"{sha256}\"\n    end\n")
    };
    of_system.map(download).collect()
}

const TEMPLATE: &str = include_str!("../../data/dist/bowline.rb");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_has_a_download_with_its_sum_for_each_platform_of_homebrew() {
        let metadata = Metadata::example();
        let tarballs: Vec<Tarball<'_>> =
            metadata.targets.iter().map(|target| Tarball { target, sha256: "5a".repeat(32) }).collect();
        let text = write(&metadata, &tarballs).unwrap();
        let sum = "5a".repeat(32);
        let expected = format!(
            r#"class Bowline < Formula
  desc "A knot"
  homepage "https://knot.invalid"
  version "1.2.3"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://knot.invalid/releases/v1.2.3/bowline-1.2.3-aarch64-apple-darwin.tar.gz"
      sha256 "{sum}"
    end
  end

  on_linux do
    on_intel do
      url "https://knot.invalid/releases/v1.2.3/bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "{sum}"
    end
  end

  def install
"#
        );
        assert!(text.starts_with(&expected), "{text}");
    }

    #[test]
    fn a_platform_without_a_tarball_is_left_out() {
        let metadata = Metadata::example();
        let tarballs = [Tarball { target: &metadata.targets[0], sha256: "5a".repeat(32) }];
        let text = write(&metadata, &tarballs).unwrap();
        assert!(text.contains("on_macos") && !text.contains("on_linux"), "{text}");
        let windows = [Tarball { target: &metadata.targets[1], sha256: "5a".repeat(32) }];
        assert_eq!(write(&metadata, &windows), None);
    }
}
