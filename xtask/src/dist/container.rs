//! Writes the container file, which makes an image of the tarballs of a release.

use super::{metadata::Metadata, release_files::Tarball, tarball, target::System};

/// The name of the container file.
pub(crate) const FILE_NAME: &str = "Containerfile";

/// Returns the container file, for the processors that have a tarball for Linux with glibc; `None` if
/// there is none.
pub(crate) fn write(metadata: &Metadata, tarballs: &[Tarball<'_>]) -> Option<String> {
    let lines: Vec<String> = tarballs
        .iter()
        .filter(|tarball| tarball.target.system == System::LinuxGnu)
        .map(|Tarball { target, sha256 }| {
            let architecture = target.container_architecture();
            let name = tarball::folder_name(metadata, target);
            format!("        {architecture}) name={name} sum={sha256} ;; \\")
        })
        .collect();
    let text = TEMPLATE
        .replace("@VERSION@", &metadata.version)
        .replace("@SUMMARY@", &metadata.summary)
        .replace("@LICENSE@", &metadata.license)
        .replace("@HOMEPAGE@", &metadata.homepage)
        .replace("@TARBALLS@", &lines.join("\n"));
    (!lines.is_empty()).then_some(text)
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
    fn without_a_tarball_for_linux_there_is_no_container_file() {
        let metadata = Metadata::example();
        let tarballs = [Tarball { target: &metadata.targets[0], sha256: "5a".repeat(32) }];
        assert_eq!(write(&metadata, &tarballs), None);
    }
}
