//! Reads the list of requirements, and checks that it is consistent.

use std::{collections::BTreeMap, fmt, fs};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::id::RequirementId;
use crate::workspace::Workspace;

const FILE: &str = "xtask/data/requirements.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirements {
    /// Groups in which no MUST and no SHOULD may be without a test.
    required: Vec<String>,
    /// Requirements that no test can prove, with the reason.
    #[serde(deserialize_with = "waivers")]
    waived: BTreeMap<RequirementId, String>,
    #[serde(rename = "group")]
    pub(super) groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) rules: Vec<Requirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirement {
    #[serde(deserialize_with = "parsed")]
    pub(super) id: RequirementId,
    pub(super) level: Level,
    /// Whether the specification does not say so and it is our interpretation.
    #[serde(default)]
    pub(super) own: bool,
    #[serde(deserialize_with = "parsed")]
    pub(super) rev: Revisions,
    /// The extension it belongs to.
    pub(super) ext: Option<String>,
    /// Only checked: the table does not show it.
    #[serde(rename = "who")]
    _who: Party,
    pub(super) rule: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Level {
    Must,
    Should,
    May,
}

/// Who has to meet a requirement.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Party {
    Client,
    /// The downstream side of the gateway, which acts as a server.
    Server,
    Both,
}

/// A valid range of revisions, as it was written.
#[derive(Debug)]
pub(super) struct Revisions(String);

/// The short names of the revisions, oldest first.
const REVISIONS: [&str; 5] = ["24-11", "25-03", "25-06", "25-11", "26"];

impl Requirements {
    pub(super) fn load(workspace: &Workspace) -> Result<Self> {
        let text =
            fs::read_to_string(workspace.root().join(FILE)).with_context(|| format!("reading {FILE}"))?;
        Self::parse(&text).with_context(|| format!("in {FILE}"))
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text)?;
        let mut names = Vec::new();
        for group in &list.groups {
            ensure!(!names.contains(&&group.name), "group {} is there twice", group.name);
            names.push(&group.name);
            for (rule, number) in group.rules.iter().zip(1..) {
                let in_place = rule.id.group() == group.name && rule.id.number() == number;
                ensure!(in_place, "{} stands where {}-{number:02} belongs", rule.id, group.name);
                ensure!(!rule.rule.trim().is_empty(), "{} says nothing", rule.id);
            }
        }
        for name in &list.required {
            ensure!(names.contains(&name), "required group {name} does not exist");
        }
        for (id, reason) in &list.waived {
            ensure!(list.get(id).is_some(), "waived {id} does not exist");
            ensure!(!reason.trim().is_empty(), "{id} is waived without a reason");
        }
        Ok(list)
    }

    pub(super) fn get(&self, id: &RequirementId) -> Option<&Requirement> {
        self.group(id.group())?.rules.iter().find(|rule| rule.id == *id)
    }

    pub(super) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns why no test names `id`, if that is accepted.
    pub(super) fn waiver(&self, id: &RequirementId) -> Option<&str> {
        self.waived.get(id).map(String::as_str)
    }

    pub(super) fn waived(&self) -> impl Iterator<Item = &RequirementId> {
        self.waived.keys()
    }

    /// Whether the check fails without a test for it.
    pub(super) fn needs_a_test(&self, rule: &Requirement) -> bool {
        rule.level != Level::May
            && self.required.iter().any(|name| name == rule.id.group())
            && self.waiver(&rule.id).is_none()
    }
}

impl Requirement {
    /// Returns the level, with a star if it is our own interpretation.
    pub(super) fn level_label(&self) -> String {
        format!("{}{}", self.level, if self.own { "*" } else { "" })
    }

    /// Returns the revisions, and the extension if it belongs to one.
    pub(super) fn scope_label(&self) -> String {
        match &self.ext {
            Some(ext) => format!("{} {ext}", self.rev.0),
            None => self.rev.0.clone(),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::May => "MAY",
        })
    }
}

impl std::str::FromStr for Revisions {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let place = |short: &str| {
            let found = REVISIONS.iter().position(|revision| *revision == short);
            found.with_context(|| format!("`{short}` is no revision"))
        };
        if let Some((first, last)) = text.split_once("..") {
            ensure!(place(first)? <= place(last)?, "`{text}` runs backwards");
        } else if text != "all" {
            place(text.strip_suffix('+').unwrap_or(text))?;
        }
        Ok(Self(text.to_owned()))
    }
}

fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err = anyhow::Error>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn waivers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<RequirementId, String>, D::Error> {
    let written = BTreeMap::<String, String>::deserialize(deserializer)?;
    let parse = |(id, reason): (String, String)| Ok((id.parse().map_err(D::Error::custom)?, reason));
    written.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        required = ["AA"]
        [waived]
        AA-02 = "nothing is shown"
        [[group]]
        name = "AA"
        title = "first"
        rules = [
            { id = "AA-01", level = "MUST", own = true, rev = "25-06+", who = "both", rule = "One." },
            { id = "AA-02", level = "SHOULD", rev = "26", ext = "tasks", who = "client", rule = "Two." },
            { id = "AA-03", level = "MAY", rev = "all", who = "server", rule = "Three." },
        ]
    "#;

    fn fault(from: &str, to: &str) -> String {
        let broken = LIST.replacen(from, to, 1);
        assert_ne!(broken, LIST, "{from}");
        format!("{:#}", Requirements::parse(&broken).err().expect("is refused"))
    }

    #[test]
    fn the_list_of_the_project_is_whole() {
        let list = Requirements::load(&Workspace::find().unwrap()).unwrap();
        assert_eq!(list.groups.len(), 38);
        assert_eq!(list.groups.iter().map(|group| group.rules.len()).sum::<usize>(), 262);
        assert_eq!(list.required.len(), list.groups.len());
        for rule in list.groups.iter().flat_map(|group| &group.rules) {
            assert!(rule.rule.len() <= 120 && rule.rule.ends_with('.'), "{}: {}", rule.id, rule.rule);
        }
    }

    #[test]
    fn an_entry_says_what_it_is() {
        let list = Requirements::parse(LIST).unwrap();
        let rules = &list.groups[0].rules;
        assert_eq!(
            (rules[0].level_label(), rules[0].scope_label()),
            ("MUST*".to_owned(), "25-06+".to_owned())
        );
        assert_eq!(
            (rules[1].level_label(), rules[1].scope_label()),
            ("SHOULD".to_owned(), "26 tasks".to_owned())
        );
        let needed: Vec<bool> = rules.iter().map(|rule| list.needs_a_test(rule)).collect();
        assert_eq!(needed, [true, false, false], "a MUST; waived; a MAY");
    }

    #[test]
    fn ranges_of_revisions_are_checked() {
        for right in ["25-11+", "24-11..25-03", "26", "all"] {
            assert_eq!(right.parse::<Revisions>().unwrap().0, right);
        }
        for wrong in ["25-12", "26..25-03", "", "25-03..", "+"] {
            assert!(wrong.parse::<Revisions>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_that_does_not_hold_together_is_refused() {
        assert!(fault("AA-03", "AA-04").contains("AA-04 stands where AA-03 belongs"));
        assert!(fault("\"AA-01\"", "\"AB-01\"").contains("AB-01 stands where AA-01 belongs"));
        assert!(fault("[\"AA\"]", "[\"BB\"]").contains("required group BB does not exist"));
        assert!(fault("AA-02 =", "AA-09 =").contains("waived AA-09 does not exist"));
        assert!(fault("nothing is shown", " ").contains("waived without a reason"));
        assert!(fault("One.", "").contains("AA-01 says nothing"));
        assert!(fault("25-06+", "25-07+").contains("`25-07` is no revision"));
        assert!(fault("who = \"both\"", "who = \"us\"").contains("us"));
        assert!(fault("title", "titel").contains("titel"));
    }
}
