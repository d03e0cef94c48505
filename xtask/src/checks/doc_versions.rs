//! Checks that the names of packages in the guides have the version of the workspace:
//! `bowline_1.2.3_amd64.deb`, `bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz`, `bowline:1.2.3`.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// Returns the names in all guides whose version is not `version`.
pub(crate) fn check(workspace: &Workspace, version: &str) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut names = 0;
    for guide in GUIDES {
        let text = fs::read_to_string(workspace.root().join(guide))
            .with_context(|| format!("{guide} belongs to the project"))?;
        for (line, name) in package_names(&text) {
            names += 1;
            if !has_version(name, version) {
                problems.push(format!("{guide}:{line}: `{name}` does not have the version {version}"));
            }
        }
    }
    if names == 0 {
        bail!("no guide of {GUIDES:?} names a package with a version");
    }
    Ok(problems)
}

/// Returns the names of packages with a version in a text, with their lines.
fn package_names(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        for (at, _) in line.match_indices(PROGRAM) {
            let name = &line[at..];
            let name =
                &name[..name.find(|c: char| c.is_whitespace() || "`\"'()".contains(c)).unwrap_or(name.len())];
            if version_part(name).is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())) {
                found.push((number, name));
            }
        }
    }
    found
}

/// Returns what follows the program and a separator in the name of a package.
fn version_part(name: &str) -> Option<&str> {
    name.strip_prefix(PROGRAM)?.strip_prefix(['_', '-', ':', '@'])
}

fn has_version(name: &str, version: &str) -> bool {
    version_part(name)
        .and_then(|rest| rest.strip_prefix(version))
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.'))
}

const PROGRAM: &str = "bowline";

const GUIDES: &[&str] = &["README.md", "docs/install.md"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_found_with_their_line() {
        let text = "`sudo apt install ./bowline_1.2.3_amd64.deb`\n`bowline-cli`, bowline_mcp, docs/bowline.md\n\
                    $ tar --file bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz\n$ podman run bowline:1.2.3 serve";
        let want = [
            (1, "bowline_1.2.3_amd64.deb"),
            (3, "bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz"),
            (4, "bowline:1.2.3"),
        ];
        assert_eq!(package_names(text), want);
        assert!(want.iter().all(|(_, name)| has_version(name, "1.2.3")));
    }

    #[test]
    fn another_version_is_not_the_one_of_the_workspace() {
        for name in ["bowline_1.2.3_amd64.deb", "bowline:1.2.3", "bowline-1.2.3"] {
            assert!(has_version(name, "1.2.3"), "{name}");
            for other in ["1.2.4", "1.2", "2.3", "1.2.30", "1.2.3.1"] {
                assert!(!has_version(name, other), "{name} {other}");
            }
        }
        assert!(!has_version("bowline:1.2.30", "1.2.3"));
        assert!(!has_version("bowline-1.2.3.4-x", "1.2.3"));
    }
}
