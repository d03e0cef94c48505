//! Builds the report: each requirement with its tests, and the totals.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    id::RequirementId,
    requirements::{Level, Party, Requirement, Requirements, Revisions},
};

#[derive(Serialize)]
pub(super) struct Report<'a> {
    pub(super) groups: Vec<GroupReport<'a>>,
}

#[derive(Serialize)]
pub(super) struct GroupReport<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    #[serde(flatten)]
    pub(super) count: Count,
    pub(super) requirements: Vec<RequirementRow<'a>>,
}

#[derive(Serialize)]
pub(super) struct RequirementRow<'a> {
    pub(super) id: String,
    pub(super) level: Level,
    /// Whether the level is our own interpretation.
    own: bool,
    revisions: &'a Revisions,
    extension: Option<&'a str>,
    who: Party,
    rule: &'a str,
    pub(super) tests: &'a [String],
    pub(super) waived: Option<&'a str>,
    #[serde(skip)]
    pub(super) entry: &'a Requirement,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    pub(super) covered: usize,
    pub(super) total: usize,
}

#[derive(Serialize)]
pub(super) struct Totals {
    pub(super) by_level: BTreeMap<Level, Count>,
    pub(super) all: Count,
    /// Requirements by group that are a MUST or a SHOULD, have no test and are not waived.
    pub(super) open: BTreeMap<String, Vec<String>>,
}

/// A report and its totals, as JSON shows them.
#[derive(Serialize)]
pub(super) struct ReportWithTotals<'a> {
    #[serde(flatten)]
    report: &'a Report<'a>,
    totals: &'a Totals,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        list: &'a Requirements,
        tests: &'a BTreeMap<RequirementId, Vec<String>>,
        wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let line = |entry: &'a Requirement| RequirementRow {
            id: entry.id.to_string(),
            level: entry.level,
            own: entry.own,
            revisions: &entry.rev,
            extension: entry.ext.as_deref(),
            who: entry.who,
            rule: &entry.rule,
            tests: tests.get(&entry.id).map_or(&[], Vec::as_slice),
            waived: list.waiver(&entry.id),
            entry,
        };
        let groups = list.groups.iter().filter(|group| wanted(&group.name));
        let group = |group: &'a super::requirements::Group| {
            let requirements: Vec<RequirementRow<'a>> = group.rules.iter().map(line).collect();
            let mut count = Count::default();
            for line in &requirements {
                count.add(line);
            }
            GroupReport { name: &group.name, title: &group.title, count, requirements }
        };
        Self { groups: groups.map(group).collect() }
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals { by_level: BTreeMap::new(), all: Count::default(), open: BTreeMap::new() };
        for group in &self.groups {
            for line in &group.requirements {
                totals.by_level.entry(line.level).or_default().add(line);
                totals.all.add(line);
            }
            let open: Vec<String> =
                group.requirements.iter().filter(|line| line.is_open()).map(|line| line.id.clone()).collect();
            if !open.is_empty() {
                totals.open.insert(group.name.to_owned(), open);
            }
        }
        totals
    }

    /// Removes the requirements that have a test, and groups in which all have one.
    pub(super) fn keep_uncovered(&mut self) {
        for group in &mut self.groups {
            group.requirements.retain(|line| line.tests.is_empty());
        }
        self.groups.retain(|group| !group.requirements.is_empty());
    }

    pub(super) fn with_totals(&'a self, totals: &'a Totals) -> ReportWithTotals<'a> {
        ReportWithTotals { report: self, totals }
    }
}

impl RequirementRow<'_> {
    fn is_open(&self) -> bool {
        self.tests.is_empty() && self.level != Level::May && self.waived.is_none()
    }
}

impl Count {
    fn add(&mut self, line: &RequirementRow<'_>) {
        self.total += 1;
        self.covered += usize::from(!line.tests.is_empty());
    }
}
