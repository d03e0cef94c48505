//! Installs a headless browser, for tests of whole logins.
//!
//! npm has a Chromium with the libraries it needs: pinned, and installed without root. It is for
//! one platform; what a page looks like and where it leads is the same everywhere.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::stamp::Stamp;
use crate::{shell, workspace::Workspace};

/// Unpacks the browser, which its package in `modules` holds compressed, once and beside the
/// package; returns the script that starts it.
pub(super) fn ensure(workspace: &Workspace, node: &Path, modules: &Path) -> Result<PathBuf> {
    let interop = workspace.root().join("interop/browser");
    let target = workspace.tools().join("chromium");
    let started_by = target.join("chromium.sh");
    let sources = ["package-lock.json", "unpack.mjs"].map(|name| interop.join(name));
    Stamp::new(&target, &sources, "unpacked, with fonts")?.ensure(&started_by, || {
        // Node looks for packages beside the script that imports them.
        let script = modules.join("../unpack.mjs");
        fs::copy(&sources[1], &script).with_context(|| format!("copying {}", script.display()))?;
        let mut unpack = Command::new(node);
        let printed = shell::read(unpack.arg(&script).env("TMPDIR", &target))?;
        write_starter(&started_by, Path::new(printed.trim()), &target)?;
        shell::read(Command::new(&started_by).arg("--version")).context("the browser does not start")?;
        Ok(())
    })?;
    Ok(started_by)
}

/// Writes a script that starts the browser with the libraries and fonts that came with it.
fn write_starter(script: &Path, chromium: &Path, unpacked: &Path) -> Result<()> {
    let quote = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
    let fonts = unpacked.join("fonts.conf");
    fs::write(&fonts, font_config(unpacked)).with_context(|| format!("writing {}", fonts.display()))?;
    let text = format!(
        "#!/bin/sh\nexport LD_LIBRARY_PATH={}\nexport FONTCONFIG_FILE={}\nexec {} \"$@\"\n",
        quote(&unpacked.join("al2023/lib")),
        quote(&fonts),
        quote(chromium),
    );
    fs::write(script, text).with_context(|| format!("writing {}", script.display()))?;
    super::make_executable(script)
}

/// Returns a font configuration. The package's own names folders of the platform it was made for:
/// here, pages would have no text.
fn font_config(unpacked: &Path) -> String {
    let escape = |path: PathBuf| path.to_string_lossy().replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<?xml version=\"1.0\"?>\n<fontconfig>\n<dir>{}</dir>\n<cachedir>{}</cachedir>\n</fontconfig>\n",
        escape(unpacked.join("fonts/fonts")),
        escape(unpacked.join("fonts-cache")),
    )
}
