//! Keeps the folders of the machine that builds a release out of the program, so that builds in two folders can be
//! compared.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// The folders of this machine that source code is compiled in, with what the program names in their place.
pub(super) struct RemappedPaths {
    folders: Vec<(PathBuf, &'static str)>,
}

impl RemappedPaths {
    pub(super) fn of_this_machine(workspace: &Workspace) -> Result<Self> {
        let cargo_home = match env::var_os("CARGO_HOME").filter(|folder| !folder.is_empty()) {
            Some(folder) => workspace.root().join(folder),
            None => env::home_dir().context("the home folder is known")?.join(".cargo"),
        };
        Ok(Self::new(workspace.root(), &cargo_home))
    }

    fn new(root: &Path, cargo_home: &Path) -> Self {
        let mut folders = vec![(root.to_owned(), "/bowline"), (cargo_home.to_owned(), "/cargo")];
        // The compiler uses the last one that fits: a folder comes after the one that contains it.
        folders.sort_by_key(|(folder, _)| folder.as_os_str().len());
        Self { folders }
    }

    /// Returns the value of `CARGO_ENCODED_RUSTFLAGS`, after the flags that the environment has. Unlike `RUSTFLAGS`, it
    /// takes folders with spaces in their names.
    pub(super) fn encoded_rustflags(&self) -> OsString {
        let encoded = env::var("CARGO_ENCODED_RUSTFLAGS").ok();
        self.append_to(encoded.as_deref(), env::var("RUSTFLAGS").ok().as_deref())
    }

    fn append_to(&self, encoded: Option<&str>, plain: Option<&str>) -> OsString {
        let mut flags: Vec<OsString> = match (encoded, plain) {
            (Some(encoded), _) => encoded.split(SEPARATOR).map(OsString::from).collect(),
            (None, plain) => plain.unwrap_or_default().split_whitespace().map(OsString::from).collect(),
        };
        flags.retain(|flag| !flag.is_empty());
        for (folder, name) in &self.folders {
            let mut flag = OsString::from("--remap-path-prefix=");
            flag.push(folder);
            flag.push("=");
            flag.push(name);
            flags.push(flag);
        }
        flags.join(&*OsString::from(SEPARATOR))
    }

    /// Returns the folder of this machine that a program names, if it names one.
    pub(super) fn find_in(&self, program: &[u8]) -> Option<&Path> {
        let is_named = |folder: &Path| {
            let folder = folder.join("");
            let name = folder.as_os_str().as_encoded_bytes();
            let is_start = |at: usize| at == 0 || !is_part_of_path(program[at - 1]);
            program.windows(name.len()).enumerate().any(|(at, part)| part == name && is_start(at))
        };
        self.folders.iter().map(|(folder, _)| folder.as_path()).find(|folder| is_named(folder))
    }
}

/// Whether a byte before a path makes it the rest of a longer one, such as `/src/` in `/cargo/registry/src/`.
fn is_part_of_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// What `CARGO_ENCODED_RUSTFLAGS` has between its flags.
const SEPARATOR: &str = "\u{1f}";

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn flags(root: &str, cargo_home: &str, encoded: Option<&str>, plain: Option<&str>) -> Vec<String> {
        let remapped = RemappedPaths::new(Path::new(root), Path::new(cargo_home));
        let flags = remapped.append_to(encoded, plain).into_string().unwrap();
        flags.split(SEPARATOR).map(str::to_owned).collect()
    }

    #[test]
    fn folders_of_the_machine_are_remapped() {
        assert_eq!(
            flags("/work/my checkout", "/home/me/.cargo", None, None),
            ["--remap-path-prefix=/home/me/.cargo=/cargo", "--remap-path-prefix=/work/my checkout=/bowline"]
        );
    }

    /// The compiler uses the last flag that fits.
    #[test]
    fn an_inner_folder_comes_last() {
        let inner = "--remap-path-prefix=/work/main/.cargo-home=/cargo";
        assert_eq!(flags("/work/main", "/work/main/.cargo-home", None, None)[1], inner);
        let inner = "--remap-path-prefix=/cargo/git/checkouts/bowline=/bowline";
        assert_eq!(flags("/cargo/git/checkouts/bowline", "/cargo", None, None)[1], inner);
    }

    #[test]
    fn flags_of_the_environment_stay() {
        let [root, home] = ["--remap-path-prefix=/r=/bowline", "--remap-path-prefix=/h=/cargo"];
        assert_eq!(flags("/r", "/h", None, Some(" -C  a ")), ["-C", "a", root, home]);
        assert_eq!(flags("/r", "/h", Some("-C\u{1f}b c"), Some("-C a")), ["-C", "b c", root, home]);
        assert_eq!(flags("/r", "/h", Some(""), Some("-C a")), [root, home]);
    }

    #[test]
    fn a_folder_in_the_program_is_found() {
        let remapped = RemappedPaths::new(Path::new("/src"), Path::new("/home/me/.cargo"));
        let found = |program: &str| remapped.find_in(program.as_bytes()).map(|it| it.display().to_string());
        assert_eq!(found("\0/cargo/registry/src/a-1.0/lib.rs\0/bowline/x.rs"), None);
        assert_eq!(found("\0/home/me/.cargo/registry/x.rs").as_deref(), Some("/home/me/.cargo"));
        assert_eq!(found("\0/src/main.rs").as_deref(), Some("/src"));
    }
}
