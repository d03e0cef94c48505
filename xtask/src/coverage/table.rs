//! Formats the report for a terminal.

use std::fmt::Write as _;

use super::report::{Report, Totals};

pub(super) fn render(report: &Report<'_>, totals: &Totals) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, report, totals);
    out
}

fn write(out: &mut String, report: &Report<'_>, totals: &Totals) -> std::fmt::Result {
    let lines = || report.groups.iter().flat_map(|group| &group.requirements);
    let width = lines().map(|line| line.entry.scope_label().len()).max().unwrap_or_default();
    for group in &report.groups {
        writeln!(out, "{}  {}  {} of {}", group.name, group.title, group.count.covered, group.count.total)?;
        for line in &group.requirements {
            let entry = line.entry;
            let (level, revisions) = (entry.level_label(), entry.scope_label());
            writeln!(out, "  {}  {level:<7}  {revisions:<width$}  {}", entry.id, entry.rule)?;
            for test in line.tests {
                writeln!(out, "         {test}")?;
            }
            if let Some(reason) = line.waived {
                writeln!(out, "         waived: {reason}")?;
            } else if line.tests.is_empty() {
                writeln!(out, "         no test")?;
            }
        }
        writeln!(out)?;
    }
    for (level, count) in &totals.by_level {
        writeln!(out, "{level:<6}  {:>3} of {:>3}", count.covered, count.total)?;
    }
    writeln!(out, "all     {:>3} of {:>3}", totals.all.covered, totals.all.total)?;
    if lines().any(|line| line.entry.own) {
        writeln!(out, "* not said by the specification in so many words")?;
    }
    if !totals.open.is_empty() {
        writeln!(out, "\nMUST and SHOULD without a test")?;
        for (group, ids) in &totals.open {
            writeln!(out, "  {group}  {}", ids.join(" "))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Claims, requirements::Requirements};
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
        let report = Report::new(&list, &claims.tests, |name| name == "AA");
        let shown = render(&report, &report.totals());
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
        let mut report = Report::new(&list, &claims.tests, |_| true);
        let totals = report.totals();
        report.keep_uncovered();
        let shown = render(&report, &totals);
        assert!(shown.contains("AA-02") && !shown.contains("AA-01") && !shown.contains("second"), "{shown}");
        assert!(shown.contains("all       2 of   4"), "the sums stay: {shown}");
    }
}
