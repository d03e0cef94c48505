//! Writes the container file, which makes an image of the tarballs of a release.

use anyhow::{Result, ensure};

use super::{metadata::Metadata, release_files::Tarball, tarball, target::System};

/// The name of the container file.
pub(crate) const FILE_NAME: &str = "Containerfile";

/// Returns the container file, for the processors that have a tarball for Linux with glibc.
pub(crate) fn write(metadata: &Metadata, tarballs: &[Tarball<'_>]) -> Result<String> {
    let lines: Vec<String> = tarballs
        .iter()
        .filter(|tarball| tarball.target.system == System::LinuxGnu)
        .map(|Tarball { target, sha256 }| {
            let architecture = target.container_architecture();
            let name = tarball::folder_name(metadata, target);
            format!("        {architecture}) name={name} sum={sha256} ;; \\")
        })
        .collect();
    ensure!(!lines.is_empty(), "an image needs a tarball for Linux with glibc");
    Ok(TEMPLATE
        .replace("@VERSION@", &metadata.version)
        .replace("@SUMMARY@", &metadata.summary)
        .replace("@LICENSE@", &metadata.license)
        .replace("@HOMEPAGE@", &metadata.homepage)
        .replace("@TARBALLS@", &lines.join("\n")))
}

const TEMPLATE: &str = include_str!("../../data/dist/Containerfile");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_verifies_the_tarball_of_its_processor() {
        let metadata = Metadata::example();
        let tarballs: Vec<Tarball<'_>> =
            metadata.targets.iter().map(|target| Tarball { target, sha256: "5a".repeat(32) }).collect();
        let text = write(&metadata, &tarballs).unwrap();
        let line = format!(
            "\n        amd64) name=bowline-1.2.3-x86_64-unknown-linux-gnu sum={} ;; \\\n        *) echo",
            "5a".repeat(32)
        );
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("COPY bowline-1.2.3-*-unknown-linux-gnu.tar.gz /tmp/\n"), "{text}");
        assert!(text.contains("image.version=\"1.2.3\""), "{text}");
        assert!(!text.contains("@VERSION@") && !text.contains("@TARBALLS@"), "{text}");
    }

    #[test]
    fn an_image_without_a_tarball_for_linux_is_refused() {
        let error = write(&Metadata::example(), &[]).unwrap_err();
        assert_eq!(error.to_string(), "an image needs a tarball for Linux with glibc");
    }
}
