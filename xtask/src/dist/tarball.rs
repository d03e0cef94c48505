//! Makes the tarball of a platform: the program with its manual pages and completions, laid out to
//! be unpacked over a prefix such as `/usr/local`.

use anyhow::Result;

use super::{archive::FileSet, contents::Contents, metadata::Metadata, target::Target};

/// Returns the name of the tarball.
pub(crate) fn file_name(metadata: &Metadata, target: &Target) -> String {
    format!("{}.tar.gz", folder_name(metadata, target))
}

/// Returns the name of the one folder in the tarball.
pub(crate) fn folder_name(metadata: &Metadata, target: &Target) -> String {
    format!("bowline-{}-{target}", metadata.version)
}

pub(crate) fn build(metadata: &Metadata, target: &Target, contents: &Contents, time: u64) -> Result<Vec<u8>> {
    let folder = folder_name(metadata, target);
    let mut files = FileSet::default();
    files.add_program(format!("{folder}/bin/{}", target.program_name()), &contents.program);
    let share = format!("{folder}/share");
    for (name, page) in &contents.manual_pages {
        files.add(format!("{share}/man/man1/{name}"), page);
    }
    files.add(format!("{share}/bash-completion/completions/bowline"), &contents.bash_completion);
    files.add(format!("{share}/fish/vendor_completions.d/bowline.fish"), &contents.fish_completion);
    files.add(format!("{share}/zsh/site-functions/_bowline"), &contents.zsh_completion);
    let documents = format!("{share}/doc/bowline/");
    contents.add_licenses(&mut files, &documents);
    files.add(format!("{documents}README.md"), &contents.readme);
    files.add(format!("{documents}CHANGELOG.md"), &contents.changelog);
    files.add(format!("{documents}bowline.cdx.json"), &contents.sbom);
    files.to_tar_gz(time)
}
