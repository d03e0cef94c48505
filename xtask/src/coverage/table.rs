//! Formats the table of requirements, each with its tests, for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{
    id::RequirementId,
    requirements::{Level, Requirement, Requirements},
};

/// The tests that name each requirement.
pub(super) type TestsById = BTreeMap<RequirementId, Vec<String>>;

/// How many requirements there are, and how many of them have a test.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) covered: usize,
    pub(super) total: usize,
}

impl Count {
    pub(super) fn new<'a>(rules: impl Iterator<Item = &'a Requirement>, tests: &TestsById) -> Self {
        rules.fold(Self::default(), |count, rule| Self {
            covered: count.covered + usize::from(tests.contains_key(&rule.id)),
            total: count.total + 1,
        })
    }
}

/// Returns the table of the wanted groups. With `uncovered`, requirements that have a test are left
/// out of the table, and counted all the same.
pub(super) fn render(
    list: &Requirements,
    tests: &TestsById,
    wanted: impl Fn(&str) -> bool,
    uncovered: bool,
) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, list, tests, wanted, uncovered);
    out
}

fn write(
    out: &mut String,
    list: &Requirements,
    tests: &TestsById,
    wanted: impl Fn(&str) -> bool,
    uncovered: bool,
) -> std::fmt::Result {
    let has_test = |rule: &Requirement| tests.contains_key(&rule.id);
    let shown = |rule: &&Requirement| !(uncovered && has_test(rule));
    let groups = || list.groups.iter().filter(|group| wanted(&group.name));
    let all = || groups().flat_map(|group| &group.rules);
    let width = all().filter(shown).map(|rule| rule.scope_label().len()).max().unwrap_or_default();
    for group in groups().filter(|group| group.rules.iter().any(|rule| shown(&rule))) {
        let count = Count::new(group.rules.iter(), tests);
        writeln!(out, "{}  {}  {} of {}", group.name, group.title, count.covered, count.total)?;
        for rule in group.rules.iter().filter(shown) {
            let (level, revisions) = (rule.level_label(), rule.scope_label());
            writeln!(out, "  {}  {level:<7}  {revisions:<width$}  {}", rule.id, rule.rule)?;
            for test in tests.get(&rule.id).into_iter().flatten() {
                writeln!(out, "         {test}")?;
            }
            if let Some(reason) = list.waiver(&rule.id) {
                writeln!(out, "         waived: {reason}")?;
            } else if !has_test(rule) {
                writeln!(out, "         no test")?;
            }
        }
        writeln!(out)?;
    }
    for level in [Level::Must, Level::Should, Level::May] {
        let count = Count::new(all().filter(|rule| rule.level == level), tests);
        if count.total > 0 {
            writeln!(out, "{level:<6}  {:>3} of {:>3}", count.covered, count.total)?;
        }
    }
    let count = Count::new(all(), tests);
    writeln!(out, "all     {:>3} of {:>3}", count.covered, count.total)?;
    if all().filter(shown).any(|rule| rule.own) {
        writeln!(out, "* not said by the specification in so many words")?;
    }
    let is_open =
        |rule: &&Requirement| !has_test(rule) && rule.level != Level::May && list.waiver(&rule.id).is_none();
    if all().any(|rule| is_open(&rule)) {
        writeln!(out, "\nMUST and SHOULD without a test")?;
    }
    // By name, and not in the order of the list.
    let mut sorted: Vec<_> = groups().collect();
    sorted.sort_by_key(|group| &group.name);
    for group in sorted {
        let open: Vec<String> = group.rules.iter().filter(is_open).map(|rule| rule.id.to_string()).collect();
        if !open.is_empty() {
            writeln!(out, "  {}  {}", group.name, open.join(" "))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Claims;
    use super::*;

    const LIST: &str = r#"
        required = []
        waived = { AA-03 = "nothing is shown" }
        [[group]]
        name = "AA"
        title = "first"
        rules = [
            { id = "AA-01", level = "MUST", own = true, rev = "25-06+", who = "both", rule = "One." },
            { id = "AA-02", level = "SHOULD", rev = "26", ext = "tasks", who = "client", rule = "Two." },
            { id = "AA-03", level = "MUST", rev = "all", who = "server", rule = "Three." },
        ]
        [[group]]
        name = "BB"
        title = "second"
        rules = [{ id = "BB-01", level = "MAY", rev = "all", who = "both", rule = "Four." }]
    "#;

    fn claims(list: &Requirements) -> Claims {
        let mut claims = Claims::default();
        claims.add("crates/client/src/a.rs", "#[test]\nfn aa_01_bb_01() {}\n#[test]\nfn aa_01() {}", list);
        claims
    }

    #[test]
    fn each_requirement_is_followed_by_its_tests() {
        let list = Requirements::parse(LIST).unwrap();
        let claims = claims(&list);
        let shown = render(&list, &claims.tests, |name| name == "AA", false);
        assert_eq!(
            shown,
            "AA  first  1 of 3\n  \
               AA-01  MUST*    25-06+    One.\n         client::a::aa_01_bb_01\n         client::a::aa_01\n  \
               AA-02  SHOULD   26 tasks  Two.\n         no test\n  \
               AA-03  MUST     all       Three.\n         waived: nothing is shown\n\n\
             MUST      1 of   2\nSHOULD    0 of   1\nall       1 of   3\n\
             * not said by the specification in so many words\n\n\
             MUST and SHOULD without a test\n  AA  AA-02\n"
        );
    }

    #[test]
    fn what_has_a_test_can_be_left_out() {
        let list = Requirements::parse(LIST).unwrap();
        let claims = claims(&list);
        let shown = render(&list, &claims.tests, |_| true, true);
        assert!(shown.contains("AA-02") && !shown.contains("AA-01") && !shown.contains("second"), "{shown}");
        assert!(shown.contains("all       2 of   4"), "the sums stay: {shown}");
    }
}
