//! Assigns the names by which a model calls tools.
//!
//! All providers accept up to 64 characters of `a-zA-Z0-9_-`; one requires a letter or an
//! underscore first. Servers may use other names, longer ones, and the same ones.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use crate::stable_hash::StableHash;

/// The longest name that every provider accepts, in characters.
pub const MAX_NAME: usize = 64;
/// Separates a prefix from the tool's own name.
const PREFIX_SEPARATOR: &str = "__";
/// Number of hexadecimal digits in the suffix that makes a name unique.
const SUFFIX_DIGITS: usize = 8;

/// Identifies a tool that needs a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId<'a> {
    /// Its server: two servers may have a tool of the same name.
    pub server: &'a str,
    /// Prefix of the name; empty for none.
    pub prefix: &'a str,
    /// The server's own name for it.
    pub name: &'a str,
}

/// Assigns a unique name of at most `max` characters to each tool. A name depends on the set of
/// tools, not on their order.
///
/// A tool keeps its name if possible. Of several that would share one, the one that needed no
/// change keeps it, and the others get a suffix that is a hash of their original names.
///
/// # Panics
/// If `max` leaves no room for the suffix.
pub fn assign_names(wanted: &[ToolId<'_>], max: usize) -> Vec<String> {
    assert!(max > SUFFIX_DIGITS + 1, "a name needs room for its suffix");
    let candidates: Vec<Candidate> = wanted.iter().map(|tool| Candidate::from_tool(tool, max)).collect();
    let mut same: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, candidate) in candidates.iter().enumerate() {
        same.entry(&candidate.name).or_default().push(at);
    }
    let mut names = vec![String::new(); wanted.len()];
    let mut marked = Vec::new();
    for (&name, all) in &same {
        let mut exact = all.iter().filter(|&&at| candidates[at].exact);
        let keeper = match (all.as_slice(), exact.next(), exact.next()) {
            (&[only], ..) if candidates[only].whole => Some(only),
            (_, Some(&only), None) => Some(only),
            _ => None,
        };
        for &at in all {
            if keeper == Some(at) {
                name.clone_into(&mut names[at]);
            } else {
                marked.push(at);
            }
        }
    }
    let mut taken: BTreeSet<String> = names.iter().filter(|name| !name.is_empty()).cloned().collect();
    // Sorted, so that the order of the input does not matter.
    marked.sort_unstable_by_key(|&at| wanted[at]);
    for at in marked {
        // A server may have a tool named like another with its suffix, so try further ones.
        let mut tries = (0_u32..).map(|salt| with_suffix(&candidates[at].name, &wanted[at], salt, max));
        let name = tries.find(|name| !taken.contains(name)).expect("there are more marks than tools");
        taken.insert(name.clone());
        names[at] = name;
    }
    names
}

/// The name that a tool would get if there were no other.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The valid name.
    pub name: String,
    /// Whether nothing was replaced or cut off.
    pub exact: bool,
    /// Whether nothing was cut off.
    pub whole: bool,
}

impl Candidate {
    /// The candidate of a tool, of at most `max` characters.
    pub fn from_tool(wanted: &ToolId<'_>, max: usize) -> Self {
        let between = if wanted.prefix.is_empty() { "" } else { PREFIX_SEPARATOR };
        let asked = [wanted.prefix, between, wanted.name];
        let mut characters = asked.iter().flat_map(|part| part.chars());
        let mut name = String::new();
        let mut exact = true;
        // Of a huge name only the beginning is read.
        for character in characters.by_ref().take(max) {
            let fits = is_name_character(character);
            name.push(if fits { character } else { '_' });
            exact &= fits;
        }
        let mut whole = characters.next().is_none();
        if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            name.insert(0, '_');
            exact = false;
            whole &= name.len() <= max;
            name.truncate(max);
        }
        Self { name, exact: exact && whole, whole }
    }
}

/// Whether all providers accept this character in a name.
pub fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// Adds a suffix to a name: a hash of the tool, and of `salt` if that is not 0.
pub fn with_suffix(name: &str, wanted: &ToolId<'_>, salt: u32, max: usize) -> String {
    let mut hash = StableHash::new();
    for part in [wanted.server, wanted.prefix, wanted.name] {
        hash.add(part.as_bytes());
        // This byte does not occur in UTF-8, so it separates the parts unambiguously.
        hash.add(&[0xff]);
    }
    if salt > 0 {
        hash.add(&salt.to_be_bytes());
    }
    let mut marked: String = name.chars().take(max - SUFFIX_DIGITS - 1).collect();
    write!(marked, "_{:08x}", hash.to_u32()).expect("writing to a string");
    marked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bare(names: &[&str]) -> Vec<String> {
        assign_names(
            &names.iter().map(|name| ToolId { server: "s", prefix: "", name }).collect::<Vec<_>>(),
            MAX_NAME,
        )
    }

    fn is_valid(name: &str, max: usize) -> bool {
        (1..=max).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    }

    /// TL-02: names are case-sensitive, and a valid name is kept.
    #[test]
    fn tl_02_names_are_kept_where_they_can_be() {
        assert_eq!(
            bare(&["Get", "get", "a-b_c", "files.read", "2d"]),
            ["Get", "get", "a-b_c", "files_read", "_2d"]
        );
        let names = bare(&["a.b", "a_b", "a b", ""]);
        assert_eq!(names[1], "a_b");
        assert!(names[0].starts_with("a_b_") && names[2].starts_with("a_b_") && names[0] != names[2]);
        assert_eq!(names[3], "_");
        let long = "x".repeat(65);
        assert!(bare(&[&long])[0].starts_with(&"x".repeat(55)), "cut, and marked as cut");
        assert_ne!(bare(&[&long])[0], "x".repeat(64));
    }

    /// TL-09: ambiguous combinations of prefix and name stay distinct.
    #[test]
    fn tl_09_prefixes_that_run_into_each_other() {
        let wanted = [
            ToolId { server: "a__b", prefix: "a__b", name: "c" },
            ToolId { server: "a", prefix: "a", name: "b__c" },
        ];
        let names = assign_names(&wanted, MAX_NAME);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.starts_with("a__b__c_")), "{names:?}");
        let same = ["one", "two"].map(|server| ToolId { server, prefix: "", name: "search" });
        let names = assign_names(&same, MAX_NAME);
        assert_ne!(names[0], names[1]);
        assert_eq!(assign_names(&[same[1], same[0]], MAX_NAME), [names[1].clone(), names[0].clone()]);
    }

    /// A server that knows how suffixes are made cannot take another's name.
    #[test]
    fn a_mark_that_is_taken_already() {
        let first = bare(&["a.b", "a b"]);
        let names = bare(&["a.b", "a b", &first[0], &first[1]]);
        assert_eq!(names[2..], first[..]);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4);
    }

    fn hostile() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ab._ -]{0,4}",
            "(a|é|\u{202e}|\u{0}|😀|/){0,3}",
            "[a-z]{60,70}",
            "[a-c.]{63,66}",
            ".{0,80}",
        ]
    }

    proptest! {
        #[test]
        fn names_are_valid_unique_and_know_no_order(
            mut names in prop::collection::btree_set((hostile(), hostile(), hostile()), 0..40),
            max in 30..=MAX_NAME,
        ) {
            fn asked(names: &BTreeSet<(String, String, String)>) -> Vec<ToolId<'_>> {
                names.iter().map(|(server, prefix, name)| ToolId { server, prefix, name }).collect()
            }
            // Add hostile tools that are named like the generated names.
            let copies: Vec<_> = assign_names(&asked(&names), max);
            names.extend(copies.into_iter().map(|name| ("hostile".to_owned(), String::new(), name)));
            let wanted = asked(&names);
            let forward = assign_names(&wanted, max);
            for name in &forward {
                prop_assert!(is_valid(name, max), "{name:?}");
            }
            prop_assert_eq!(forward.iter().collect::<BTreeSet<_>>().len(), wanted.len());
            let reversed: Vec<_> = wanted.iter().rev().copied().collect();
            let mut backward = assign_names(&reversed, max);
            backward.reverse();
            prop_assert_eq!(forward, backward);
        }
    }
}
