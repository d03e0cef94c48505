//! Names for the tools and prompts of many servers.

use std::collections::{HashMap, HashSet};

use super::name_owners::NameTable;
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
    /// Never, and nothing else is changed either: names, URIs and instructions are those of the server. Requests for
    /// something that the server does not list reach it all the same. Only for a gateway with one server.
    Unchanged,
}

/// Longest name, in characters: hosts put a prefix before it, and every provider accepts 64.
pub(super) const MAX_EXPOSED_NAME: usize = MAX_NAME - "mcp__bowline__".len();

/// Assigns a unique name to each element, given as its server and the server's own name for it. An
/// element that a server has twice gets one name. The order does not matter.
///
/// No element ever gets a name that another element had before: of several that would share a name,
/// none gets it; a name that another had, as `owners` remember, is not given; and a name that looks
/// generated, or like one of another server, is never given as it is.
pub(super) fn expose<'a>(
    elements: &[(&'a str, &'a str)],
    servers: &[&str],
    naming: Naming,
    owners: &mut NameTable,
) -> HashMap<(&'a str, &'a str), String> {
    let mut unique: Vec<_> = elements.to_vec();
    unique.sort_unstable();
    unique.dedup();
    let bare: Vec<_> = unique.iter().map(|&(server, name)| candidate(server, "", name)).collect();
    let count_by_name = count(bare.iter().map(|candidate| candidate.name.as_str()));
    let prefixes: HashSet<_> = servers.iter().map(|server| candidate("", server, "").name).collect();
    let mut is_plain = vec![false; unique.len()];
    let candidates: Vec<_> = unique
        .iter()
        .zip(&bare)
        .zip(&mut is_plain)
        .map(|((&(server, name), bare), is_plain)| {
            *is_plain = naming == Naming::PlainIfUnique
                && count_by_name[bare.name.as_str()] == 1
                && owners.is_free(&bare.name, server, name);
            if *is_plain { bare.clone() } else { candidate(server, server, name) }
        })
        .collect();
    let mut names: Vec<_> = candidates.iter().map(|candidate| candidate.name.clone()).collect();
    let mut salts: Vec<Option<u32>> = unique
        .iter()
        .zip(candidates.iter().zip(&is_plain))
        .map(|(&(server, name), (candidate, is_plain))| {
            let looks_prefixed = *is_plain && has_prefix(&candidate.name, &prefixes);
            let is_clean = candidate.whole
                && !looks_prefixed
                && !looks_marked(&candidate.name)
                && owners.is_free(&candidate.name, server, name);
            (!is_clean).then_some(0)
        })
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
            break;
        }
        for at in shared {
            salts[at] = Some(salts[at].map_or(0, |salt| salt + 1));
        }
    }
    for (at, &(server, name)) in unique.iter().enumerate() {
        if salts[at].is_none() {
            owners.claim(&names[at], server, name);
        }
    }
    unique.into_iter().zip(names).collect()
}

/// The prefixed name of an element that has a plain one now, if it had that before: hosts may know it
/// from then.
pub(super) fn earlier_name(server: &str, name: &str, owners: &NameTable) -> Option<String> {
    let candidate = candidate(server, server, name);
    owners.is_owner(&candidate.name, server, name).then_some(candidate.name)
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

/// Whether a name begins like those of a server, with its name and two underscores.
fn has_prefix(name: &str, prefixes: &HashSet<String>) -> bool {
    let ends = name.as_bytes().windows(2).enumerate().filter(|(_, pair)| *pair == b"__");
    ends.map(|(at, _)| &name[..at + 2]).any(|start| prefixes.contains(start))
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

    fn servers<'a>(elements: &[(&'a str, &'a str)]) -> Vec<&'a str> {
        elements.iter().map(|&(server, _)| server).collect()
    }

    fn exposed(elements: &[(&str, &str)]) -> Vec<String> {
        let names = expose(elements, &servers(elements), Naming::PlainIfUnique, &mut NameTable::default());
        elements.iter().map(|element| names[element].clone()).collect()
    }

    #[test]
    fn names_are_plain_unless_two_servers_have_them() {
        assert_eq!(
            exposed(&[("a", "search"), ("b", "search"), ("b", "read")]),
            ["a__search", "b__search", "read"]
        );
        let prefixed = expose(&[("a", "search")], &["a"], Naming::Prefixed, &mut NameTable::default());
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
    fn a_plain_name_stays_with_its_tool_when_that_is_gone() {
        let mut owners = NameTable::default();
        let mut names = |elements: &[(&'static str, &'static str)]| {
            let names = expose(elements, &["one", "two"], Naming::PlainIfUnique, &mut owners);
            elements.iter().map(|element| names[element].clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[("one", "echo")]), ["echo"]);
        assert_eq!(names(&[("one", "echo"), ("two", "echo")]), ["one__echo", "two__echo"]);
        assert_eq!(names(&[("two", "echo")]), ["two__echo"], "a rule for `echo` was for that of `one`");
        assert_eq!(names(&[("one", "echo")]), ["echo"]);
    }

    #[test]
    fn a_prefixed_name_is_known_when_it_is_plain_again() {
        let mut owners = NameTable::default();
        let both = [("one", "echo"), ("two", "echo")];
        expose(&both, &["one", "two"], Naming::PlainIfUnique, &mut owners);
        expose(&both[..1], &["one"], Naming::PlainIfUnique, &mut owners);
        assert_eq!(earlier_name("one", "echo", &owners).as_deref(), Some("one__echo"));
        assert_eq!(earlier_name("one", "read", &owners), None, "it never was");
        // Another server's tool had that name.
        expose(&[("one__a", "b"), ("x", "b")], &["one__a", "x"], Naming::PlainIfUnique, &mut owners);
        assert_eq!(earlier_name("one__a", "b", &owners).as_deref(), Some("one__a__b"));
        assert_eq!(earlier_name("one", "a__b", &owners), None);
    }

    #[test]
    fn a_name_like_that_of_another_server_is_marked() {
        let names = exposed(&[("evil", "files__delete"), ("files", "read")]);
        assert!(names[0].starts_with("files__delete_") && names[0].len() == 22, "{names:?}");
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

    /// What the largest set-up that is expected has: 500 servers with 1,000 tools each.
    #[test]
    fn half_a_million_names_are_unique_and_valid() {
        let mut random = fastrand::Rng::with_seed(7);
        let parts =
            ["get", "list", ".", "/", "__", "-", "é", "\u{202e}", "搜索", " ", "issue", "search", "x"];
        let mut elements: Vec<(String, String)> = Vec::new();
        for server in 0..500 {
            for tool in 0..1_000 {
                let count = random.usize(1..8);
                let mut name: String = (0..count).map(|_| parts[random.usize(..parts.len())]).collect();
                if random.u8(..10) == 0 {
                    name = format!("{name}{}", "long".repeat(30)).chars().take(120).collect();
                }
                // Some names are those of many servers, and some of one.
                let is_common = random.bool();
                elements.push((format!("s{server}"), if is_common { name } else { format!("{name}{tool}") }));
            }
        }
        let given: Vec<_> = elements.iter().map(|(server, name)| (&**server, &**name)).collect();
        let configured: Vec<_> = servers(&given).into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let names = expose(&given, &configured, Naming::PlainIfUnique, &mut NameTable::default());
        let distinct: HashSet<_> = names.values().collect();
        assert_eq!(distinct.len(), names.len());
        assert_eq!(names.len(), given.iter().collect::<HashSet<_>>().len());
        for name in distinct {
            assert!((1..=MAX_EXPOSED_NAME).contains(&name.len()), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
        }
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
            let names = expose(&forward, &servers(&forward), naming, &mut NameTable::default());
            let again = expose(&backward, &servers(&backward), naming, &mut NameTable::default());
            prop_assert_eq!(&names, &again);
            let distinct: BTreeSet<_> = names.values().collect();
            prop_assert_eq!(distinct.len(), forward.len());
            for name in distinct {
                prop_assert!((1..=MAX_EXPOSED_NAME).contains(&name.len()), "{}", name);
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            }
        }

        /// Whatever servers come to offer or stop offering, a name never becomes that of another
        /// element: not with a server that joins, nor with a list that changes.
        #[test]
        fn no_name_ever_moves(
            lists in prop::collection::vec(prop::collection::btree_set(("(a|b|c|a__b|_)", name()), 0..20), 1..5),
        ) {
            let configured = ["a", "b", "c", "a__b", "_"];
            let mut owners = NameTable::default();
            let mut had: HashMap<String, (String, String)> = HashMap::new();
            for list in &lists {
                // Elements that are named like what others were called are tried as well.
                let hostile: Vec<_> = had.keys().map(|name| ("c".to_owned(), name.clone())).collect();
                let all: BTreeSet<_> = list.iter().cloned().chain(hostile).collect();
                let elements: Vec<_> = all.iter().map(|(server, name)| (&**server, &**name)).collect();
                for ((server, own), name) in expose(&elements, &configured, Naming::PlainIfUnique, &mut owners) {
                    let element = (server.to_owned(), own.to_owned());
                    let owner = had.entry(name.clone()).or_insert_with(|| element.clone());
                    prop_assert_eq!(&*owner, &element, "{}", name);
                }
            }
        }
    }
}
