//! The path of the program `testkit-stdio`, which is built if it is missing or outdated.
//!
//! Cargo tells a test the path of a binary only if both are in the same package. Other tests run as
//! `target/<profile>/deps/<test>-<hash>`, with the binaries one folder up. If the program is not
//! there (`cargo test -p other` builds only the library of this package) or older than its sources,
//! it is built, once per test process; Cargo's own lock keeps parallel builds apart.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub(super) fn stdio_program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(find_or_build).clone()
}

fn find_or_build() -> PathBuf {
    if let Some(path) = std::env::var_os("TESTKIT_STDIO") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the running test has a path");
    let mut folder = test.parent().expect("a file is in a folder");
    if folder.ends_with("deps") || folder.ends_with("examples") {
        folder = folder.parent().expect("the profile's folder");
    }
    let program = folder.join(format!("testkit-stdio{}", std::env::consts::EXE_SUFFIX));
    if !is_up_to_date(&program) {
        build(folder);
    }
    assert!(program.exists(), "{} is missing; set TESTKIT_STDIO to its path", program.display());
    program
}

/// Returns whether the program exists and is newer than every source file of the package.
fn is_up_to_date(program: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let Some(built) = changed(program) else { return false };
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = folder.read_dir() else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if changed(&path).is_some_and(|changed| changed > built) {
                return false;
            }
        }
    }
    true
}

fn build(folder: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = folder.parent().expect("the target folder");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--manifest-path", manifest, "--bin", "testkit-stdio"])
        .args(["--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .status();
    // Without cargo an existing program is still used; the caller checks that it exists.
    if let Ok(status) = built {
        assert!(status.success(), "testkit-stdio could not be built");
    }
}
