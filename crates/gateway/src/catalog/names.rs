//! Names for the tools and prompts of many servers.

use std::collections::HashMap;

use bowline_proto::tool_names::{Candidate, MAX_NAME, ToolId, with_suffix};

/// When the name of a server is put before the names of its tools and prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// Only where two servers have the same name for something. Then both are prefixed, so that a
    /// rule of the host for one of them never applies to the other.
    #[default]
    PlainIfUnique,
    /// Always.
    Prefixed,
}

/// Longest name, in characters: hosts put a prefix before it, and every provider accepts 64.
pub(super) const MAX_EXPOSED_NAME: usize = MAX_NAME - "mcp__bowline__".len();

/// Assigns a unique name to each element, given as its server and the server's own name for it. An
/// element that a server has twice gets one name. The order does not matter.
///
/// When a server joins, none of its elements gets a name that another element had before: of
/// several that would share a name, none gets it, and a name that looks generated is never given
/// as it is.
pub(super) fn expose<'a>(
    elements: &[(&'a str, &'a str)],
    naming: Naming,
) -> HashMap<(&'a str, &'a str), String> {
    let mut unique: Vec<_> = elements.to_vec();
    unique.sort_unstable();
    unique.dedup();
    let bare: Vec<_> = unique.iter().map(|&(server, name)| candidate(server, "", name)).collect();
    let count_by_name = count(bare.iter().map(|candidate| candidate.name.as_str()));
    let candidates: Vec<_> = unique
        .iter()
        .zip(&bare)
        .map(|(&(server, name), bare)| {
            let is_plain = naming == Naming::PlainIfUnique && count_by_name[bare.name.as_str()] == 1;
            if is_plain { bare.clone() } else { candidate(server, server, name) }
        })
        .collect();
    let mut names: Vec<_> = candidates.iter().map(|candidate| candidate.name.clone()).collect();
    let mut salts: Vec<Option<u32>> = candidates
        .iter()
        .map(|candidate| (!candidate.whole || looks_marked(&candidate.name)).then_some(0))
        .collect();
    loop {
        for (at, salt) in salts.iter().enumerate() {
            if let Some(salt) = *salt {
                let (server, name) = unique[at];
                let tool = ToolId { server, prefix: "", name };
                names[at] = with_suffix(&candidates[at].name, &tool, salt, MAX_EXPOSED_NAME);
            }
        }
        let counts = count(names.iter().map(String::as_str));
        let shared: Vec<_> = (0..names.len()).filter(|&at| counts[names[at].as_str()] > 1).collect();
        if shared.is_empty() {
            return unique.into_iter().zip(names).collect();
        }
        for at in shared {
            salts[at] = Some(salts[at].map_or(0, |salt| salt + 1));
        }
    }
}

fn candidate(server: &str, prefix: &str, name: &str) -> Candidate {
    Candidate::from_tool(&ToolId { server, prefix, name }, MAX_EXPOSED_NAME)
}

fn count<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    let mut counts = HashMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Whether a name looks like one with a suffix that makes it unique.
fn looks_marked(name: &str) -> bool {
    name.rsplit_once('_').is_some_and(|(_, end)| end.len() == 8 && end.bytes().all(is_hex_digit))
}

fn is_hex_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn exposed(elements: &[(&str, &str)]) -> Vec<String> {
        let names = expose(elements, Naming::PlainIfUnique);
        elements.iter().map(|element| names[element].clone()).collect()
    }

    #[test]
    fn names_are_plain_unless_two_servers_have_them() {
        assert_eq!(
            exposed(&[("a", "search"), ("b", "search"), ("b", "read")]),
            ["a__search", "b__search", "read"]
        );
        let prefixed = expose(&[("a", "search")], Naming::Prefixed);
        assert_eq!(prefixed[&("a", "search")], "a__search");
    }

    /// TL-09: what only becomes equal when it is made valid is told apart too.
    #[test]
    fn tl_09_names_that_become_equal_are_prefixed() {
        assert_eq!(exposed(&[("a", "x.y"), ("b", "x_y")]), ["a__x_y", "b__x_y"]);
    }

    #[test]
    fn a_name_is_short_enough_behind_the_prefix_of_a_host() {
        let long = "x".repeat(120);
        for name in exposed(&[("server", &long), ("other", &long), ("server", "y")]) {
            assert!(format!("mcp__bowline__{name}").len() <= 64, "{name}");
        }
    }

    #[test]
    fn a_server_cannot_take_a_generated_name() {
        let long = "x".repeat(60);
        let elements = [("docs", &*long), ("docs", "a b"), ("docs", "a.b")];
        let had = exposed(&elements);
        assert!(had[0].starts_with("xxx") && had[1].starts_with("docs__a_b_"), "{had:?}");
        let all: Vec<_> = elements.into_iter().chain(had.iter().map(|name| ("hostile", &**name))).collect();
        let joined = exposed(&all);
        assert_eq!(joined[..3], had[..]);
        assert!(joined[3..].iter().all(|name| !had.contains(name)), "{joined:?}");
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-c]{1,2}", "[a-b._/]{1,3}", "[a-c]{40,60}", "(a|é|\u{202e}|__){0,3}", ".{0,120}"]
    }

    proptest! {
        /// Names are unique, valid, and a function of the set.
        #[test]
        fn names_are_unique_and_know_no_order(
            elements in prop::collection::btree_set(("[a-d]{1,3}", name()), 0..60),
            always in any::<bool>(),
        ) {
            let naming = if always { Naming::Prefixed } else { Naming::PlainIfUnique };
            let forward: Vec<_> = elements.iter().map(|(server, name)| (&**server, &**name)).collect();
            let backward: Vec<_> = forward.iter().rev().copied().collect();
            let names = expose(&forward, naming);
            prop_assert_eq!(&names, &expose(&backward, naming));
            let distinct: BTreeSet<_> = names.values().collect();
            prop_assert_eq!(distinct.len(), forward.len());
            for name in distinct {
                prop_assert!((1..=MAX_EXPOSED_NAME).contains(&name.len()), "{}", name);
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            }
        }

        /// When a server joins, a name that another tool had is never that of one of its tools.
        #[test]
        fn no_name_moves_to_a_server_that_joins(
            before in prop::collection::btree_set(("[a-c]", name()), 1..30),
            joins in prop::collection::btree_set(name(), 1..30),
        ) {
            let old: Vec<_> = before.iter().map(|(server, name)| (&**server, &**name)).collect();
            let all: Vec<_> = old.iter().copied().chain(joins.iter().map(|name| ("new", &**name))).collect();
            let had = expose(&old, Naming::PlainIfUnique);
            for ((server, _), name) in expose(&all, Naming::PlainIfUnique) {
                if server == "new" {
                    prop_assert!(!had.values().any(|taken| *taken == name), "{}", name);
                }
            }
        }
    }
}
