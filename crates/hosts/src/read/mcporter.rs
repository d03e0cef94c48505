//! Reads the command of an mcporter entry, which mcporter accepts in more forms than other hosts do.

use bowline_config::tree::{Key, Node, Value};

use super::fields::has;

/// Brings the command of an entry into the form of other hosts: `executable` is a name for `command`, and a command
/// without arguments is a line that has them in it.
pub(super) fn normalize_command(fields: &mut Vec<(Key, Node)>) {
    let has_command = has(fields, "command");
    fields.retain(|(key, _)| !(has_command && key.name == "executable"));
    let has_args = fields.iter().any(|(key, node)| {
        key.name == "args" && matches!(&node.value, Value::Array(items) if !items.is_empty())
    });
    for (key, node) in fields {
        if key.name == "executable" {
            "command".clone_into(&mut key.name);
        }
        if key.name == "command"
            && !has_args
            && let Value::String(line) = &node.value
            && line.contains(char::is_whitespace)
        {
            let offset = node.offset;
            let words = split_line(line).into_iter();
            node.value =
                Value::Array(words.map(|word| Node { offset, value: Value::String(word) }).collect());
        }
    }
}

/// Splits a line at its blanks. Quotation marks keep blanks together, and a backslash keeps any character.
fn split_line(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.push(letters.next().unwrap_or('\\')),
            mark if quote == Some(mark) => quote = None,
            mark @ ('"' | '\'') if quote.is_none() => quote = Some(mark),
            blank if blank.is_whitespace() && quote.is_none() => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            letter => word.push(letter),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}
