//! Writes the values of an entry. No string has a line end of its own, since the ends of all lines become those that the
//! file had before.

use std::fmt::Write as _;

use toml_edit::{Array, Value};

use super::EntryValue;

/// Returns a value as it is written into the document.
pub(super) fn to_value(value: &EntryValue) -> Value {
    match value {
        EntryValue::Text(text) => string_value(text),
        EntryValue::List(texts) => {
            Value::Array(texts.iter().map(|text| string_value(text)).collect::<Array>())
        }
        EntryValue::Table(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (key.as_str(), string_value(value)));
            Value::InlineTable(pairs.collect())
        }
        EntryValue::Flag(flag) => Value::from(*flag),
        EntryValue::Number(number) => Value::from(*number),
        EntryValue::Keys(keys) => {
            Value::InlineTable(keys.iter().map(|(key, value)| (*key, to_value(value))).collect())
        }
    }
}

/// Returns a string on one line. By default, a text with line ends becomes a string of several lines.
fn string_value(text: &str) -> Value {
    let default = Value::from(text);
    if !text.contains(['\r', '\n']) {
        return default;
    }
    basic_string(text).parse().unwrap_or(default)
}

/// Quotes a text, with an escape for each character that a basic string cannot have.
fn basic_string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                write!(quoted, "\\u{:04x}", u32::from(c)).expect("writing to a string");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::fs;

    use toml_edit::DocumentMut;

    use super::super::ConfigEditor;
    use super::*;

    #[test]
    fn values_with_line_ends_are_kept_in_any_file() {
        let values = ["a\nb", "a\r\nb\n", "\r\"'\\\t\u{1}\u{7f}\u{85}é", "\n'''\"\"\"", "plain"];
        let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
        for end in ["\n", "\r\n"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("config.toml");
            fs::write(&path, format!("# Mine.{end}[servers.a]{end}url = \"u\"{end}")).unwrap();
            let mut editor = ConfigEditor::open(&path).unwrap();
            let env = texts.iter().enumerate().map(|(at, text)| (format!("V{at}"), text.clone())).collect();
            let entry = [
                ("command", EntryValue::Text("sh\n".to_owned())),
                ("args", EntryValue::List(texts.clone())),
                ("env", EntryValue::Table(env)),
            ];
            editor.set_server("b", &entry);
            editor.save().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(text.matches('\n').count(), text.matches(end).count(), "{text}");
            let document: DocumentMut = text.parse().unwrap();
            let entry = &document["servers"]["b"];
            assert_eq!(entry["command"].as_str(), Some("sh\n"), "{text}");
            let args: Vec<_> = entry["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert_eq!(args, values, "{text}");
            for (at, value) in values.iter().enumerate() {
                assert_eq!(entry["env"][&format!("V{at}")].as_str(), Some(*value), "{text}");
            }
        }
    }

    #[test]
    fn a_text_of_several_lines_is_written_on_one() {
        let shown = |text: &str| to_value(&EntryValue::Text(text.to_owned())).to_string();
        assert_eq!(shown("a\n\"b\"\\"), r#""a\n\"b\"\\""#);
        assert_eq!(shown("a \"b\""), r#"'a "b"'"#);
    }
}
