//! Names for the tools and prompts of many servers.

use std::collections::HashMap;

use bowline_proto::tool_names::{MAX_NAME, ToolId, assign_names};

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
pub(super) fn expose<'a>(
    elements: &[(&'a str, &'a str)],
    naming: Naming,
) -> HashMap<(&'a str, &'a str), String> {
    let mut unique: Vec<_> = elements.to_vec();
    unique.sort_unstable();
    unique.dedup();
    // Assigned without prefixes first: names that only become equal when they are made valid
    // collide as well.
    let bare: Vec<_> = unique.iter().map(|&(_, name)| sanitized(name)).collect();
    let mut servers_by_name: HashMap<&str, usize> = HashMap::new();
    for name in &bare {
        *servers_by_name.entry(name).or_default() += 1;
    }
    let tools: Vec<_> = unique
        .iter()
        .zip(&bare)
        .map(|(&(server, name), bare)| {
            let is_prefixed = naming == Naming::Prefixed
                || servers_by_name[bare.as_str()] > 1
                || (bare == name && looks_marked(name));
            ToolId { server, prefix: if is_prefixed { server } else { "" }, name }
        })
        .collect();
    let names = assign_names(&tools, MAX_EXPOSED_NAME);
    unique.into_iter().zip(names).collect()
}

/// The name that an element would get if there were no other.
fn sanitized(name: &str) -> String {
    let alone = [ToolId { server: "", prefix: "", name }];
    assign_names(&alone, MAX_EXPOSED_NAME).pop().expect("one tool has one name")
}

/// Whether a server's own name looks like one with a suffix that makes it unique. If it were
/// exposed as it is, a server could take the name of another's tool.
fn looks_marked(name: &str) -> bool {
    name.rsplit_once('_')
        .is_some_and(|(_, end)| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_hexdigit()))
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
        let long = "x".repeat(45);
        let elements = [("docs", &*long), ("other", &*long)];
        let had = exposed(&elements);
        let joined = exposed(&[elements[0], elements[1], ("hostile", &*had[0])]);
        assert_eq!(joined[..2], had[..]);
        assert!(!had.contains(&joined[2]), "{joined:?}");
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
