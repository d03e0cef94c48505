//! `cargo xtask coverage`: shows which requirements of the protocol have a test that names them.
//!
//! Naming is a claim, not a proof; the table puts the claims next to each other so that they can be
//! read. A step of `cargo xtask test` checks them: a new requirement, or a removed test, cannot go
//! unnoticed.

mod id;
mod reader;
mod requirements;
mod table;

use anyhow::{Result, bail};

use self::{
    id::RequirementId,
    requirements::Requirements,
    table::{Count, TestsById},
};
use crate::workspace::Workspace;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show these groups alone, such as EL.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    group: Vec<String>,
    /// Show only requirements without a test.
    #[arg(long)]
    uncovered: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let list = Requirements::load(workspace)?;
    if let Some(unknown) = args.group.iter().find(|name| list.group(&name.to_uppercase()).is_none()) {
        let names: Vec<&str> = list.groups.iter().map(|group| group.name.as_str()).collect();
        bail!("there is no group {unknown}; there are {}", names.join(" "));
    }
    let wanted =
        |name: &str| args.group.is_empty() || args.group.iter().any(|group| group.eq_ignore_ascii_case(name));
    let claims = Claims::read(workspace, &list)?;
    print!("{}", table::render(&list, &claims.tests, wanted, args.uncovered));
    Ok(())
}

/// Checks that every id in a comment exists, and that every requirement that needs a test has one.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let list = Requirements::load(workspace)?;
    let claims = Claims::read(workspace, &list)?;
    let faults = find_gaps(&list, &claims);
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    let count = Count::new(list.groups.iter().flat_map(|group| &group.rules), &claims.tests);
    eprintln!("{} of {} requirements have a test", count.covered, count.total);
    Ok(())
}

fn find_gaps(list: &Requirements, claims: &Claims) -> Vec<String> {
    let unknown = claims.unknown.iter().map(|(id, place)| format!("{place}: there is no requirement {id}"));
    let rules = list.groups.iter().flat_map(|group| &group.rules);
    let untested = rules
        .filter(|rule| list.needs_a_test(rule) && !claims.tests.contains_key(&rule.id))
        .map(|rule| format!("{} ({}) has no test: {}", rule.id, rule.level_label(), rule.rule));
    // A waiver that outlived its reason would hide the loss of a test.
    let stale = list
        .waived()
        .filter(|id| claims.tests.contains_key(id))
        .map(|id| format!("{id} is waived, but has a test: take it off the list"));
    unknown.chain(untested).chain(stale).collect()
}

/// The requirements that the tests of the tree claim to cover.
#[derive(Default)]
struct Claims {
    tests: TestsById,
    /// Ids that are not in the list, with the location of each.
    unknown: Vec<(RequirementId, String)>,
}

impl Claims {
    fn read(workspace: &Workspace, list: &Requirements) -> Result<Self> {
        let mut claims = Self::default();
        for (path, text) in workspace.rust_sources(CRATES)? {
            claims.add(&path, &text, list);
        }
        Ok(claims)
    }

    fn add(&mut self, path: &str, text: &str, list: &Requirements) {
        // Comments outside tests prove nothing, but a wrong id misleads a reader there as well.
        for (number, line) in (1..).zip(text.lines()) {
            for id in id::ids_in_comment(reader::comment_in(line)) {
                if list.get(&id).is_none() {
                    self.unknown.push((id, format!("{path}:{number}")));
                }
            }
        }
        let inside = path.strip_prefix(CRATES).unwrap_or(path).trim_start_matches('/');
        if inside.starts_with(TESTKIT) {
            return;
        }
        for test in reader::tests(inside, text, |name| list.group(name).is_some()) {
            for id in test.ids {
                if list.get(&id).is_some() {
                    self.tests.entry(id).or_default().push(test.name.clone());
                } else if !self.unknown.iter().any(|(known, _)| *known == id) {
                    self.unknown.push((id, format!("{path}, {}", test.name)));
                }
            }
        }
    }
}

const CRATES: &str = "crates";

/// Folder of the scripted server, whose own tests say nothing about the client.
const TESTKIT: &str = "testkit/";

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        required = ["EL"]
        waived = { EL-03 = "nothing is shown" }
        [[group]]
        name = "EL"
        title = "elicitation"
        rules = [
            { id = "EL-01", level = "MUST", rev = "26", who = "both", rule = "One." },
            { id = "EL-02", level = "MAY", rev = "26", who = "both", rule = "Two." },
            { id = "EL-03", level = "MUST", rev = "26", who = "both", rule = "Three." },
        ]
        [[group]]
        name = "GW"
        title = "gateway"
        rules = [{ id = "GW-01", level = "MUST", rev = "26", who = "server", rule = "Four." }]
    "#;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let list = Requirements::parse(LIST).unwrap();
        let mut claims = Claims::default();
        for (path, text) in files {
            claims.add(path, text, &list);
        }
        find_gaps(&list, &claims)
    }

    #[test]
    fn what_is_required_needs_a_test() {
        assert_eq!(found(&[]), ["EL-01 (MUST) has no test: One."]);
        assert_eq!(found(&[("crates/client/src/a.rs", "#[test]\nfn el_01() {}")]), [""; 0]);
    }

    #[test]
    fn the_testkit_proves_nothing() {
        assert_eq!(found(&[("crates/testkit/src/a.rs", "#[test]\nfn el_01() {}")]).len(), 1);
    }

    #[test]
    fn an_id_that_does_not_exist_is_told_with_its_place() {
        let text = "// EL-01\n#[test]\nfn a() {\n    // XX-01\n}\n#[test]\nfn el_09_b() {}";
        assert_eq!(
            found(&[("crates/client/src/a.rs", text)]),
            [
                "crates/client/src/a.rs:4: there is no requirement XX-01",
                "crates/client/src/a.rs, client::a::el_09_b: there is no requirement EL-09"
            ]
        );
    }

    #[test]
    fn a_waiver_ends_with_the_first_test() {
        let text = "#[test]\nfn el_01_el_03() {}";
        assert_eq!(
            found(&[("crates/client/src/a.rs", text)]),
            ["EL-03 is waived, but has a test: take it off the list"]
        );
    }
}
