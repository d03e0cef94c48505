//! The list of mutants that may survive, each with the reason, and its comparison with those that
//! did.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::workspace::Workspace;

pub(super) const FILE: &str = "xtask/data/mutants.toml";

/// The list of accepted survivors.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Survivors {
    #[serde(default, rename = "survivor")]
    entries: Vec<SurvivorRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SurvivorRow {
    /// Relative to the checkout.
    file: String,
    /// What was changed and in which function, as cargo-mutants prints it after the position.
    mutant: String,
    /// How many survivors of this description the function has.
    #[serde(default = "one")]
    count: usize,
    /// Why no test can notice it, or why that is accepted.
    reason: String,
}

/// A mutant without its position in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mutant {
    pub(super) file: String,
    pub(super) mutant: String,
}

/// Where the list and the run do not agree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference {
    Unexplained { mutant: Mutant, survived: usize, listed: usize },
    Outdated { mutant: Mutant, survived: usize, listed: usize },
}

impl Survivors {
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        let file = workspace.root().join(FILE);
        let text = fs::read_to_string(&file).with_context(|| format!("reading {FILE}"))?;
        Self::parse(&text).with_context(|| format!("in {FILE}"))
    }

    fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text)?;
        let mut seen = BTreeSet::new();
        for entry in &list.entries {
            let mutant = entry.mutant();
            ensure!(!entry.reason.trim().is_empty(), "{mutant} has no reason");
            ensure!(entry.count > 0, "{mutant} has a count of 0");
            ensure!(seen.insert(mutant.clone()), "{mutant} is listed twice");
        }
        Ok(list)
    }

    /// Refuses rows for files that mutants are never made of: nothing would ever compare them.
    pub(super) fn check_files(&self, files: &BTreeSet<String>) -> Result<()> {
        for entry in &self.entries {
            ensure!(files.contains(&entry.file), "{FILE} names {}, which is not looked at", entry.file);
        }
        Ok(())
    }

    /// Compares the list with the survivors of a run over `files`. Rows for other files are left
    /// alone.
    pub(super) fn compare(
        &self,
        survivors: &BTreeMap<Mutant, usize>,
        files: &BTreeSet<String>,
    ) -> Vec<Difference> {
        let listed: BTreeMap<_, _> = self
            .entries
            .iter()
            .filter(|entry| files.contains(&entry.file))
            .map(|entry| (entry.mutant(), entry.count))
            .collect();
        let all: BTreeSet<_> = listed.keys().chain(survivors.keys()).collect();
        all.into_iter()
            .filter_map(|mutant| {
                let survived = survivors.get(mutant).copied().unwrap_or_default();
                let listed = listed.get(mutant).copied().unwrap_or_default();
                let mutant = mutant.clone();
                match survived.cmp(&listed) {
                    std::cmp::Ordering::Equal => None,
                    std::cmp::Ordering::Greater => Some(Difference::Unexplained { mutant, survived, listed }),
                    std::cmp::Ordering::Less => Some(Difference::Outdated { mutant, survived, listed }),
                }
            })
            .collect()
    }
}

impl SurvivorRow {
    fn mutant(&self) -> Mutant {
        Mutant { file: self.file.clone(), mutant: self.mutant.clone() }
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.mutant)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexplained { mutant, survived, listed } => {
                write!(f, "UNEXPLAINED  {mutant} ({survived} survived, {listed} listed)")
            }
            Self::Outdated { mutant, survived, listed } => {
                write!(f, "OUTDATED     {mutant} ({survived} survived, {listed} listed)")
            }
        }
    }
}

fn one() -> usize {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[survivor]]
        file = "a.rs"
        mutant = "replace + with - in f"
        count = 2
        reason = "both sums are of zeros"

        [[survivor]]
        file = "b.rs"
        mutant = "replace g with ()"
        reason = "g only logs"
    "#;

    fn mutant(file: &str, mutant: &str) -> Mutant {
        Mutant { file: file.to_owned(), mutant: mutant.to_owned() }
    }

    fn files(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn list_that_explains_every_survivor_has_no_difference() {
        let list = Survivors::parse(LIST).unwrap();
        let survivors = BTreeMap::from([
            (mutant("a.rs", "replace + with - in f"), 2),
            (mutant("b.rs", "replace g with ()"), 1),
        ]);
        assert_eq!(list.compare(&survivors, &files(&["a.rs", "b.rs"])), []);
    }

    #[test]
    fn unexplained_and_outdated_survivors_are_differences() {
        let list = Survivors::parse(LIST).unwrap();
        let sum = mutant("a.rs", "replace + with - in f");
        let other = mutant("a.rs", "replace + with * in f");
        let survivors = BTreeMap::from([(sum.clone(), 3), (other.clone(), 1)]);
        let found = list.compare(&survivors, &files(&["a.rs", "b.rs"]));
        let logged = mutant("b.rs", "replace g with ()");
        assert_eq!(
            found,
            [
                Difference::Unexplained { mutant: other, survived: 1, listed: 0 },
                Difference::Unexplained { mutant: sum.clone(), survived: 3, listed: 2 },
                Difference::Outdated { mutant: logged, survived: 0, listed: 1 },
            ]
        );
        let survivors = BTreeMap::from([(sum.clone(), 1)]);
        let found = list.compare(&survivors, &files(&["a.rs"]));
        assert_eq!(found, [Difference::Outdated { mutant: sum, survived: 1, listed: 2 }]);
    }

    #[test]
    fn entry_of_a_file_that_was_not_run_is_left_alone() {
        let list = Survivors::parse(LIST).unwrap();
        assert_eq!(list.compare(&BTreeMap::new(), &files(&["c.rs"])), []);
    }

    #[test]
    fn entry_needs_a_reason_a_count_and_a_file_that_is_looked_at() {
        Survivors::parse(&LIST.replace("g only logs", " ")).unwrap_err();
        Survivors::parse(&LIST.replace("count = 2", "count = 0")).unwrap_err();
        Survivors::parse(&format!("{LIST}{LIST}")).unwrap_err();
        let list = Survivors::parse(LIST).unwrap();
        list.check_files(&files(&["a.rs", "b.rs"])).unwrap();
        list.check_files(&files(&["a.rs"])).unwrap_err();
    }

    #[test]
    fn list_of_the_tree_can_be_read() {
        Survivors::read(&Workspace::find().unwrap()).unwrap();
    }
}
