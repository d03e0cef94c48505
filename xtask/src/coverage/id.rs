//! Parses ids of requirements, and finds them in comments and in the names of tests.

use std::{fmt, str::FromStr};

use anyhow::Context;

/// The id of a requirement: two letters for the group, and a number within it, such as `HT-04`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RequirementId {
    group: Box<str>,
    number: u8,
}

impl RequirementId {
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    fn parse(text: &str) -> Option<Self> {
        let (group, number) = text.split_once('-')?;
        Self::from_parts(group, number)
    }

    fn from_parts(group: &str, number: &str) -> Option<Self> {
        let letters = group.len() == 2 && group.bytes().all(|byte| byte.is_ascii_uppercase());
        let digits = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = (letters && digits).then(|| number.parse().ok()).flatten()?;
        Some(Self { group: group.into(), number })
    }
}

impl FromStr for RequirementId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).with_context(|| format!("`{text}` is not two letters, a hyphen and two digits"))
    }
}

impl fmt::Display for RequirementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}", self.group, self.number)
    }
}

/// Returns the ids in a comment. `HT-01 to HT-03` names all three.
pub(super) fn ids_in_comment(text: &str) -> Vec<RequirementId> {
    let is_part = |c: char| c == '_' || c == '-' || c.is_alphanumeric();
    let mut found: Vec<RequirementId> = Vec::new();
    let mut words = ["", ""];
    for word in text.split(|c| !is_part(c)) {
        if let Some(id) = RequirementId::parse(word) {
            let first = RequirementId::parse(words[0]).filter(|first| first.group == id.group);
            if let (Some(first), "to") = (first, words[1]) {
                let between = first.number + 1..id.number;
                found.extend(between.map(|number| RequirementId { group: id.group.clone(), number }));
            }
            found.push(id);
        }
        words = [words[1], word];
    }
    found
}

/// Returns the ids in the name of a test. `it_16_…` may be plain words, so only known groups count.
pub(super) fn ids_in_name(name: &str, is_group: impl Fn(&str) -> bool) -> Vec<RequirementId> {
    let parts: Vec<&str> = name.split('_').collect();
    let ids =
        parts.windows(2).filter_map(|pair| RequirementId::from_parts(&pair[0].to_ascii_uppercase(), pair[1]));
    ids.filter(|id| is_group(id.group())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ids: impl IntoIterator<Item = RequirementId>) -> Vec<String> {
        ids.into_iter().map(|id| id.to_string()).collect()
    }

    fn comment(text: &str) -> Vec<String> {
        shown(ids_in_comment(text))
    }

    #[test]
    fn ids_are_found_in_comments() {
        assert_eq!(comment("// HT-04, HL-02: and (BM-01). é XX-99"), ["HT-04", "HL-02", "BM-01", "XX-99"]);
    }

    #[test]
    fn a_range_names_what_lies_between() {
        assert_eq!(comment("// HT-01 to HT-04, HL-02"), ["HT-01", "HT-02", "HT-03", "HT-04", "HL-02"]);
        assert_eq!(comment("HT-01 and to HT-03"), ["HT-01", "HT-03"]);
        assert_eq!(comment("HT-01 to HL-03 to HL-01"), ["HT-01", "HL-03", "HL-01"]);
    }

    #[test]
    fn lookalikes_are_not_ids() {
        for text in
            ["HT-4", "HT-041", "aHT-04", "HT-04b", "HT - 04", "ht_04", "HT--04", "é HT", "X-HT-04", "HTT-04"]
        {
            assert!(comment(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_name_may_hold_several_ids_of_known_groups() {
        let names = |name| shown(ids_in_name(name, |group| ["HT", "HL"].contains(&group)));
        assert_eq!(names("ht_04_hl_11_both"), ["HT-04", "HL-11"]);
        assert_eq!(names("after_hl_03"), ["HL-03"]);
        assert!(names("it_16_and_ht_4").is_empty());
    }
}
