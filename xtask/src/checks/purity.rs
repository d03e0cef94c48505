//! Checks that `proto` and `config` do no I/O: no sockets, files, clocks, threads or environment.
//!
//! It checks their dependencies and the paths that their own source names. Tests are exempt,
//! because a test may read a file or use a runtime. The length check runs here too, as the other
//! rule about source.

use anyhow::{Result, bail};

use super::{length, paths::named_paths};
use crate::{
    shell,
    source::{SourceFile, line_of},
    workspace::Workspace,
};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut problems = Vec::new();
    for (package, source) in PURE_CRATES {
        problems.extend(impure_dependencies(workspace, package)?);
        let files = SourceFile::load(workspace, source)?;
        if files.is_empty() {
            bail!("{source} holds no source: the purity check would check nothing");
        }
        for file in &files {
            let path = workspace.show(&file.path);
            let found = impure_names(&file.code);
            problems.extend(found.iter().map(|(line, why)| format!("{path}:{line}: {why}")));
        }
        eprintln!("{package}: {} files looked at", files.len());
    }
    problems.extend(length::find_long_files(workspace)?);
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

fn impure_dependencies(workspace: &Workspace, package: &str) -> Result<Vec<String>> {
    let mut command = shell::cargo();
    // On every platform: a runtime that only Windows pulls in is still a runtime.
    command
        .args(["tree", "--package", package, "--edges", "normal", "--target", "all"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(workspace.root());
    let tree = shell::read(&mut command)?;
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<&str> = names.filter(|name| RUNTIMES.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found.iter().map(|name| format!("{package} depends on {name}, which does I/O")).collect())
}

/// Returns the lines of `code` that name something impure, with what and why.
fn impure_names(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for path in named_paths(code) {
        let rule = RULES
            .iter()
            .find(|rule| path.segments.windows(rule.names.len()).any(|window| window == rule.names));
        if let Some(rule) = rule {
            let named = path.segments.join("::");
            found.push((line_of(code, path.at), format!("`{named}`: {}", rule.instead)));
        }
    }
    found
}

/// A path, or a part of one, that pure code must not name.
struct Rule {
    names: &'static [&'static str],
    instead: &'static str,
}

const PURE_CRATES: &[(&str, &str)] =
    &[("bowline-proto", "crates/proto/src"), ("bowline-config", "crates/config/src")];

const RUNTIMES: &[&str] = &["async-std", "hyper", "hyper-util", "mio", "reqwest", "smol", "socket2", "tokio"];

const RULES: &[Rule] = &[
    Rule { names: &["std", "net"], instead: "bytes come in as arguments" },
    Rule { names: &["std", "fs"], instead: "text comes in as arguments" },
    Rule { names: &["std", "env"], instead: "read the environment through the caller's trait" },
    Rule { names: &["std", "process"], instead: "ask the driver to act" },
    Rule { names: &["std", "thread"], instead: "the core has no tasks" },
    Rule { names: &["std", "os"], instead: "platform calls belong to the drivers" },
    Rule { names: &["Instant", "now"], instead: "`now` is an argument" },
    Rule { names: &["SystemTime", "now"], instead: "`now` is an argument" },
    Rule { names: &["tokio"], instead: "the core knows no runtime" },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::blank_literals;

    fn lines(code: &str) -> Vec<usize> {
        impure_names(&blank_literals(code)).iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn sockets_clocks_and_runtimes_are_found() {
        assert_eq!(lines("use std::{\n    fmt,\n    fs::File,\n};"), [3]);
        assert_eq!(lines("let t = Instant::now();"), [1]);
        assert_eq!(lines("f();\nlet at = std::time::SystemTime::now();"), [2]);
        assert_eq!(lines("a();\ntokio::spawn(x);"), [2]);
        assert_eq!(lines("let v = std::env::var(\"X\");"), [1]);
    }

    #[test]
    fn what_only_looks_alike_is_left_alone() {
        assert!(lines("use std::time::{Duration, Instant, SystemTime};").is_empty());
        assert!(lines("let start = SystemTime::UNIX_EPOCH;").is_empty());
        assert!(lines("// Instant::now() is for drivers\nlet s = \"std::net\";").is_empty());
        assert!(lines("let v = env!(\"CARGO_PKG_VERSION\"); self.process(net);").is_empty());
        assert!(lines("crate::net::x(); config::env::y();").is_empty());
    }
}
