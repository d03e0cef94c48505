//! Decides how `bowline --help` groups the verbs: by what a person wants to do.

use std::fmt::Write as _;

use clap::builder::{StyledStr, Styles};
use clap::{Command, Subcommand as _};

use super::Verb;

/// The groups of verbs. A verb that none of them names is shown among the others.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Find and call",
        &[
            "tools",
            "search",
            "call",
            "repl",
            "read",
            "prompt",
            "resources",
            "templates",
            "prompts",
            "tasks",
            "complete",
            "info",
            "ping",
        ],
    ),
    (
        "Set up servers",
        &["add", "import", "list", "remove", "enable", "disable", "edit", "config", "trust", "untrust"],
    ),
    ("Use them in MCP hosts", &["install", "uninstall", "serve", "connect"]),
    ("Log in", &["login", "logout", "auth"]),
    ("Watch", &["status", "watch", "logs", "doctor", "ps"]),
];

const OTHERS: &str = "Others";

/// Returns the template for the help of the command as a whole. Clap has no groups of subcommands, so they are written
/// into the template.
pub(super) fn help_template() -> StyledStr {
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    let header = *Styles::styled().get_header();
    for group in group_verbs() {
        writeln!(text, "{header}{}:{header:#}", group.title).expect("writing to a string");
        text.push_str(&group.lines());
        text.push('\n');
    }
    write!(text, "{header}Options:{header:#}\n{{options}}{{after-help}}").expect("writing to a string");
    text.into()
}

struct Group {
    title: &'static str,
    /// Verbs, and what each does.
    verbs: Vec<(String, String)>,
}

impl Group {
    fn lines(&self) -> String {
        let literal = *Styles::styled().get_literal();
        self.verbs.iter().fold(String::new(), |mut lines, (verb, about)| {
            let padding = NAME_WIDTH.saturating_sub(verb.len());
            writeln!(lines, "  {literal}{verb}{literal:#}{:padding$}{about}", "")
                .expect("writing to a string");
            lines
        })
    }
}

/// Width of the longest verb, and two spaces.
const NAME_WIDTH: usize = 13;

fn group_verbs() -> Vec<Group> {
    let all = Verb::augment_subcommands(Command::new("bowline"));
    let mut left: Vec<&Command> = all.get_subcommands().filter(|verb| !verb.is_hide_set()).collect();
    let entry = |verb: &Command| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        (verb.get_name().to_owned(), about)
    };
    let mut groups: Vec<Group> = GROUPS
        .into_iter()
        .map(|(title, names)| {
            let take = |name: &&str| {
                let at = left.iter().position(|verb| verb.get_name() == *name)?;
                Some(entry(left.remove(at)))
            };
            Group { title, verbs: names.iter().filter_map(take).collect() }
        })
        .collect();
    let mut others: Vec<_> = left.into_iter().map(entry).collect();
    others.push(("help".to_owned(), "Print this text, or the help of a verb".to_owned()));
    groups.push(Group { title: OTHERS, verbs: others });
    groups
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    /// Every verb is shown once, and no group names one that does not exist. A new verb belongs into a group, or here.
    #[test]
    fn no_verb_is_missing() {
        let groups = group_verbs();
        let others = groups.last().unwrap();
        let names: Vec<&str> = others.verbs.iter().map(|(verb, _)| verb.as_str()).collect();
        assert_eq!(names, ["completions", "man", "demo", "help"]);
        let shown_count: usize = groups.iter().map(|group| group.verbs.len()).sum();
        let expected_count: usize = GROUPS.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(
            shown_count,
            expected_count + others.verbs.len(),
            "a group names a verb twice, or one that does not exist"
        );
    }

    #[test]
    fn the_groups_are_in_both_forms_of_the_help() {
        for long in [false, true] {
            let mut command = Cli::command();
            let help = if long { command.render_long_help() } else { command.render_help() }.to_string();
            let mut at = 0;
            for (title, verbs) in
                GROUPS.iter().map(|(title, verbs)| (*title, *verbs)).chain([(OTHERS, &["man"][..])])
            {
                let heading =
                    help.find(&format!("\n{title}:\n")).unwrap_or_else(|| panic!("{title} in {help}"));
                assert!(heading > at, "{title}");
                at = heading;
                for verb in verbs {
                    assert!(help[at..].contains(&format!("\n  {verb} ")), "{verb} in {help}");
                }
            }
            assert!(help.contains("--trust-project"), "{help}");
            assert!(help.contains("Exit codes"), "{help}");
        }
    }

    #[test]
    fn a_verb_fits_on_a_line_of_a_terminal() {
        for (verb, about) in group_verbs().into_iter().flat_map(|group| group.verbs) {
            assert!(verb.len() + 2 <= NAME_WIDTH, "{verb}");
            assert!(2 + NAME_WIDTH + about.chars().count() <= 80, "{verb}: {about}");
        }
    }
}
