//! A server that the real `npx` runs, and its child: both die with a killed host.
#![cfg(unix)]

#[path = "process"]
mod process {
    pub(crate) mod support;
}

use std::fs;
use std::path::Path;
use std::process::Command;

use process::support::host::{Host, ProcessRoll, run_as_host_if_requested};

#[tokio::test]
async fn what_npx_runs_dies_with_the_host() {
    run_as_host_if_requested().await;
    let roll = ProcessRoll::new();
    let package = tempfile::tempdir().unwrap();
    install(package.path(), &roll.stay());
    // `npx` of the npm that the test command installs with. Without it the test fails: a missing
    // launcher must not look like one that ends well.
    let found = Command::new("npx").arg("--version").output().expect("npx is on the PATH");
    assert!(found.status.success(), "{found:?}");
    let folder = package.path().display();
    let cache = package.path().join("cache");
    let script = format!(
        "cd '{folder}'; export npm_config_cache='{}' npm_config_update_notifier=false; npx --no knot; echo never",
        cache.display()
    );
    let mut host = Host::start("what_npx_runs_dies_with_the_host", &script, &roll.records());
    let present = roll.wait_for(if cfg!(target_os = "linux") { 2 } else { 1 }).await;
    host.kill();
    present.gone().await;
}

/// Installs a package whose program starts a child, on Linux also a detached one, and stays.
fn install(folder: &Path, stay: &str) {
    let program = format!(
        "#!/usr/bin/env node
         const {{ spawn }} = require('child_process');
         const stay = {stay:?};
         spawn('sh', ['-c', stay], {{ stdio: 'inherit' }});
         if (process.platform === 'linux') spawn('sh', ['-c', stay], {{ stdio: 'ignore', detached: true }}).unref();
         setInterval(() => {{}}, 1000);
        "
    );
    let bin = folder.join("node_modules/.bin");
    let knot = folder.join("node_modules/knot");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&knot).unwrap();
    fs::write(folder.join("package.json"), r#"{"name":"rope","version":"1.0.0","private":true}"#).unwrap();
    let manifest = r#"{"name":"knot","version":"1.0.0","bin":{"knot":"knot.js"}}"#;
    fs::write(knot.join("package.json"), manifest).unwrap();
    process::support::executable(&knot.join("knot.js"), &program);
    std::os::unix::fs::symlink("../knot/knot.js", bin.join("knot")).unwrap();
}
