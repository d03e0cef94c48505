//! Builds the report: each requirement with its tests, and the totals.

use std::collections::BTreeMap;

use super::{
    id::RequirementId,
    requirements::{Group, Level, Requirement, Requirements},
};

pub(super) struct Report<'a> {
    pub(super) groups: Vec<GroupReport<'a>>,
}

pub(super) struct GroupReport<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) count: Count,
    pub(super) requirements: Vec<RequirementRow<'a>>,
}

pub(super) struct RequirementRow<'a> {
    pub(super) entry: &'a Requirement,
    pub(super) tests: &'a [String],
    pub(super) waived: Option<&'a str>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) covered: usize,
    pub(super) total: usize,
}

pub(super) struct Totals {
    pub(super) by_level: BTreeMap<Level, Count>,
    pub(super) all: Count,
    /// Requirements by group that are a MUST or a SHOULD, have no test and are not waived.
    pub(super) open: BTreeMap<String, Vec<String>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        list: &'a Requirements,
        tests: &'a BTreeMap<RequirementId, Vec<String>>,
        wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let row = |entry: &'a Requirement| RequirementRow {
            entry,
            tests: tests.get(&entry.id).map_or(&[], Vec::as_slice),
            waived: list.waiver(&entry.id),
        };
        let report = |group: &'a Group| {
            let requirements: Vec<RequirementRow<'a>> = group.rules.iter().map(row).collect();
            let mut count = Count::default();
            for row in &requirements {
                count.add(row);
            }
            GroupReport { name: &group.name, title: &group.title, count, requirements }
        };
        Self { groups: list.groups.iter().filter(|group| wanted(&group.name)).map(report).collect() }
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals { by_level: BTreeMap::new(), all: Count::default(), open: BTreeMap::new() };
        for group in &self.groups {
            for row in &group.requirements {
                totals.by_level.entry(row.entry.level).or_default().add(row);
                totals.all.add(row);
                if row.is_open() {
                    totals.open.entry(group.name.to_owned()).or_default().push(row.entry.id.to_string());
                }
            }
        }
        totals
    }

    /// Removes the requirements that have a test, and groups in which all have one.
    pub(super) fn keep_uncovered(&mut self) {
        for group in &mut self.groups {
            group.requirements.retain(|row| row.tests.is_empty());
        }
        self.groups.retain(|group| !group.requirements.is_empty());
    }
}

impl RequirementRow<'_> {
    fn is_open(&self) -> bool {
        self.tests.is_empty() && self.entry.level != Level::May && self.waived.is_none()
    }
}

impl Count {
    fn add(&mut self, row: &RequirementRow<'_>) {
        self.total += 1;
        self.covered += usize::from(!row.tests.is_empty());
    }
}
