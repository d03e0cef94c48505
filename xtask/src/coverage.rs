//! `cargo xtask coverage`: which requirements of the protocol checklist the tests name.
//!
//! A test names a requirement as `HT-04` in a comment or string, or as `ht_04` in its own name. Naming is a claim,
//! not a proof; the table is there so that the claims can be read next to each other.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::{source::SourceFile, tree::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// List the requirements that no test names.
    #[arg(long)]
    missing: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut places: BTreeMap<Id, Vec<String>> = BTreeMap::new();
    for folder in ["crates", "conformance"] {
        for file in SourceFile::load(workspace, folder)? {
            let path = workspace.show(&file.path);
            // The scripted server's own tests say nothing of the client.
            if path.starts_with("crates/testkit/") {
                continue;
            }
            // The conformance client is a test as a whole.
            let whole = folder == "conformance";
            for line in file.lines().filter(|line| whole || line.is_test) {
                for id in ids(line.text) {
                    places.entry(id).or_default().push(format!("{path}:{}", line.number));
                }
            }
        }
    }
    for (id, found) in &places {
        println!("{:<6} {}", id.to_string(), found.join(" "));
    }
    println!();
    let mut sum = 0;
    for (index, (group, total)) in GROUPS.iter().enumerate() {
        let named: Vec<u8> =
            places.keys().filter(|id| id.group == index && id.number <= *total).map(|id| id.number).collect();
        sum += named.len();
        let missing: Vec<String> = (1..=*total)
            .filter(|number| args.missing && !named.contains(number))
            .map(|number| format!("{group}-{number:02}"))
            .collect();
        println!(
            "{}",
            format!("{group}  {:>3} of {total:<3}  {}", named.len(), missing.join(" ")).trim_end()
        );
    }
    let total: u32 = GROUPS.iter().map(|(_, total)| u32::from(*total)).sum();
    println!("all {sum:>3} of {total}");

    let unknown: Vec<String> = places
        .iter()
        .filter(|(id, _)| !(1..=GROUPS[id.group].1).contains(&id.number))
        .map(|(id, found)| format!("{id} is in no checklist: {}", found.join(" ")))
        .collect();
    if !unknown.is_empty() {
        bail!("{}", unknown.join("\n"));
    }
    Ok(())
}

/// A requirement: the place of its group in [`GROUPS`], and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    group: usize,
    number: u8,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{:02}", GROUPS[self.group].0, self.number)
    }
}

/// The requirements a line names, each once.
fn ids(line: &str) -> Vec<Id> {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let mut found = Vec::new();
    let words: Vec<&str> = line.split(|c: char| !is_word(c)).collect();
    let mut rest = line;
    for pair in words.windows(2) {
        // Words may touch only through one hyphen: `HT-04`, not `HT - 04`.
        let Some((_, after)) = rest.split_once(pair[0]) else { break };
        rest = after;
        let hyphen = rest.strip_prefix('-').is_some_and(|next| next.starts_with(pair[1]));
        if hyphen && !pair[1].is_empty() {
            found.extend(id(pair[0], pair[1]));
        }
    }
    if let Some((_, name)) = line.split_once("fn ") {
        let name = name.split(|c: char| !is_word(c)).next().unwrap_or_default();
        let parts: Vec<&str> = name.split('_').collect();
        for pair in parts.windows(2) {
            found.extend(id(&pair[0].to_ascii_uppercase(), pair[1]));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn id(group: &str, number: &str) -> Option<Id> {
    let two_digits = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
    let group = GROUPS.iter().position(|(name, _)| *name == group)?;
    let number = two_digits.then(|| number.parse().ok()).flatten()?;
    Some(Id { group, number })
}

/// Groups of the checklist in its order, with the number of requirements in each.
const GROUPS: &[(&str, u8)] = &[
    ("BM", 8),
    ("LC", 16),
    ("DE", 12),
    ("ST", 8),
    ("HT", 5),
    ("HL", 11),
    ("HM", 14),
    ("HS", 4),
    ("PG", 2),
    ("PR", 4),
    ("CN", 6),
    ("LG", 3),
    ("PA", 3),
    ("CP", 3),
    ("CA", 6),
    ("SB", 6),
    ("TA", 6),
    ("TN", 10),
    ("RT", 4),
    ("SA", 7),
    ("EL", 12),
    ("MR", 8),
    ("TL", 11),
    ("RS", 7),
    ("PM", 2),
    ("IC", 3),
    ("AD", 7),
    ("AR", 5),
    ("AF", 7),
    ("SC", 5),
    ("TK", 5),
    ("AX", 9),
    ("SE", 12),
    ("JS", 5),
    ("MT", 3),
    ("OT", 2),
    ("AP", 5),
    ("GW", 16),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Vec<String> {
        ids(line).iter().map(Id::to_string).collect()
    }

    #[test]
    fn the_checklist_has_262_requirements() {
        assert_eq!(GROUPS.iter().map(|(_, total)| u32::from(*total)).sum::<u32>(), 262);
    }

    #[test]
    fn ids_are_found_in_comments_and_test_names() {
        assert_eq!(shown("// HT-04, HL-02: and (BM-01)"), ["BM-01", "HT-04", "HL-02"]);
        assert_eq!(shown("async fn ht_04_hl_11_both() {"), ["HT-04", "HL-11"]);
        assert_eq!(shown("fn ht_04_x() { // HT-04"), ["HT-04"]);
    }

    #[test]
    fn look_alikes_are_not_ids() {
        for line in
            ["XX-04", "HT-4", "HT-041", "aHT-04", "HT-04b", "HT - 04", "let ht_04 = 1;", "HT--04", "é HT"]
        {
            assert!(shown(line).is_empty(), "{line}");
        }
    }
}
