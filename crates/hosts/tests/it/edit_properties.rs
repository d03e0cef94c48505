//! Properties of every valid document: an entry is added in one piece, and removed without a trace.

use bowline_hosts::{Host, HostDocument};
use proptest::prelude::*;

use crate::edit_bytes::serve_command;

/// Blanks and comments between two tokens of JSON.
fn trivia() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "",
        " ",
        "\n",
        "\r\n",
        "\t",
        "  ",
        "\n    ",
        "// a \"b\": { \n",
        "//}\r\n",
        "/* , */",
        "/* {\n */",
    ]);
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b c", "é", "$schema", "x\\\"y", "url", "servers", "env"])
        .prop_map(String::from)
}

fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "-1.5e3",
        "\"text\"",
        "\"\\u007b // {\"",
        "\"\"",
        "123456789012345678901234567890",
    ]);
    leaf.prop_map(String::from).prop_recursive(3, 12, 3, |inner| {
        let members = prop::collection::btree_map(key(), inner.clone(), 0..4);
        let elements = prop::collection::vec(inner, 0..3);
        prop_oneof![
            (members, trivia(), any::<bool>()).prop_map(|(members, trivia, trailing)| {
                let members = members.into_iter().map(|(key, value)| member(&key, &value, &trivia));
                join('{', &members.collect::<Vec<_>>(), &trivia, trailing, '}')
            }),
            (elements, trivia(), any::<bool>())
                .prop_map(|(elements, trivia, trailing)| join('[', &elements, &trivia, trailing, ']')),
        ]
    })
}

fn member(key: &str, value: &str, trivia: &str) -> String {
    format!("\"{key}\"{trivia}:{trivia}{value}{trivia}")
}

fn join(open: char, parts: &[String], trivia: &str, trailing: bool, close: char) -> String {
    let comma = if trailing && !parts.is_empty() { "," } else { "" };
    format!("{open}{trivia}{}{comma}{trivia}{close}", parts.join(&format!(",{trivia}")))
}

/// A document with or without a list of servers, with or without servers in it.
fn json_document() -> impl Strategy<Value = String> {
    let members = prop::collection::btree_map(key(), json_value(), 0..4);
    let servers = prop::option::of(prop::collection::btree_map(key(), json_value(), 0..4));
    (members, servers, trivia(), trivia(), any::<[bool; 3]>()).prop_map(
        |(members, servers, outer, inner, [bom, first, trailing])| {
            let mut all: Vec<String> =
                members.iter().map(|(key, value)| member(key, value, &outer)).collect();
            if let Some(servers) = servers {
                let servers: Vec<String> =
                    servers.iter().map(|(key, value)| member(key, value, &inner)).collect();
                let servers = member("mcpServers", &join('{', &servers, &inner, trailing, '}'), &outer);
                all.insert(if first { 0 } else { all.len() }, servers);
            }
            let mark = if bom { "\u{feff}" } else { "" };
            format!("{mark}{outer}{}{outer}", join('{', &all, &outer, trailing, '}'))
        },
    )
}

fn toml_document() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec!["\n", "# a [comment]\n", "  # indented\n"]);
    let table = prop::sample::select(vec![
        "[tui]\nx = \"\"\"\n[mcp_servers.bowline]\n\"\"\"",
        "[mcp_servers.a]\ncommand = 'x' # odd",
        "[mcp_servers.a.env]\n  K = \"v\"",
        "[[hooks]]\non = [\n  \"a\", # b\n]",
        "[projects.\"/a b\"]\ntrust_level = \"trusted\"",
        "[mcp_servers.b]\nurl=\"u\"\n\n",
    ]);
    (prop::collection::vec(line, 0..3), prop::collection::btree_set(table, 0..6), any::<[bool; 2]>())
        .prop_map(|(lines, tables, [windows, ended])| {
            let mut text = lines.concat();
            text.push_str(&tables.into_iter().collect::<Vec<_>>().join("\n"));
            if ended {
                text.push('\n');
            }
            if windows { text.replace('\n', "\r\n") } else { text }
        })
}

fn yaml_document() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "# comment\n",
        "\n",
        "a: 1\n",
        "prompt: |\n  extensions:\n    x: y\n",
        "list:\n- extensions\n- {b: c}\n",
        "text: \"extensions: \\\n  {}\"\n",
        "extensions:\n  one:\n    enabled: true\n    args:\n    - a\n  # two\n  two: {type: builtin}\n",
        "extensions:\n      deep:\n        type: builtin\n\n",
        "extensions: {}\n",
        "extensions: {one: {type: builtin}} # all\n",
        "extensions: # none\n",
    ]);
    let is_servers = |piece: &&str| piece.starts_with("extensions");
    (prop::collection::vec(piece, 0..6), any::<[bool; 2]>()).prop_map(move |(pieces, [windows, unended])| {
        let mut used = Vec::new();
        for piece in pieces {
            let key = piece.split(':').next().unwrap_or_default();
            let is_new = piece.starts_with(['#', '\n'])
                || !used.iter().any(|other: &&str| other.split(':').next() == Some(key));
            if is_new && !(is_servers(&piece) && used.iter().any(is_servers)) {
                used.push(piece);
            }
        }
        let mut text = used.concat();
        if unended {
            text.truncate(text.trim_end_matches('\n').len());
        }
        if windows { text.replace('\n', "\r\n") } else { text }
    })
}

/// Adds an entry, and checks that nothing else changed and that it can be removed.
fn check(host: Host, text: &str) -> Result<(), TestCaseError> {
    let before = HostDocument::parse(host, text).expect("a valid document");
    let added = before.insert("bowline", &serve_command()).expect("a place for the entry");
    let after = added.document.text();
    prop_assert_eq!(after.len(), text.len() + added.inserted.len());
    // One piece was inserted: what is left and right of it is the old text.
    let is_piece = |at: usize| {
        text.is_char_boundary(at)
            && after.starts_with(&text[..at])
            && after[at..].starts_with(&added.inserted)
            && after.ends_with(&text[at..])
    };
    prop_assert!((0..=text.len()).any(is_piece), "{}", after);
    prop_assert!(added.document.has_command("bowline", &serve_command()));
    let others: Vec<_> = before.entries().collect();
    let kept: Vec<_> = added.document.entries().filter(|(name, _)| *name != "bowline").collect();
    prop_assert_eq!(others, kept);
    let restored = added.document.remove_inserted("bowline", &added.inserted).expect("it was just added");
    prop_assert_eq!(restored.text(), text);
    let removed = added.document.remove("bowline");
    if host.file_format() == bowline_hosts::FileFormat::Json {
        let removed = removed.expect("an entry that can be removed");
        if before.entries().count() > 0 {
            prop_assert_eq!(removed.text(), text);
        }
    } else if let Ok(removed) = removed {
        prop_assert_eq!(removed.entries().count(), before.entries().count());
    }
    Ok(())
}

proptest! {
    #[test]
    fn an_entry_leaves_no_trace_in_json(text in json_document()) {
        check(Host::Cursor, &text)?;
    }

    #[test]
    fn an_entry_leaves_no_trace_in_toml(text in toml_document()) {
        check(Host::Codex, &text)?;
    }

    #[test]
    fn an_entry_leaves_no_trace_in_yaml(text in yaml_document()) {
        check(Host::Goose, &text)?;
    }

    /// Whatever a file contains, it is changed exactly or refused, and nothing panics.
    #[test]
    fn any_text_is_changed_exactly_or_refused(text in "[-{}\\[\\],:\"'/*#=a\\\\ \n\r\t.&|>]{0,40}") {
        for host in [Host::Cursor, Host::Codex, Host::Hermes] {
            let Ok(before) = HostDocument::parse(host, &text) else { continue };
            let Ok(added) = before.insert("bowline", &serve_command()) else { continue };
            let restored = added.document.remove_inserted("bowline", &added.inserted).expect("just added");
            prop_assert_eq!(restored.text(), text.as_str());
            let _ = added.document.remove("bowline");
        }
    }
}
