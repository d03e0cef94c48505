//! Formats JSON for a terminal: indented, but with order and numbers unchanged, which a parser
//! would not preserve.

use std::fmt::Write as _;

use super::escape::is_active;

/// Indents valid JSON. Characters that a terminal could act on are written as JSON escapes.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 4);
    let mut depth = 0_usize;
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                copy_string(&mut chars, &mut out);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    push_line_break(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                push_line_break(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                push_line_break(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Replaces characters that a terminal could act on by JSON escapes, and changes nothing else.
pub(crate) fn escape_active(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // In valid JSON, such characters occur in strings only.
        if is_active(c) && !c.is_ascii_whitespace() { escape(c, &mut out) } else { out.push(c) }
    }
    out
}

fn escape(c: char, out: &mut String) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        write!(out, "\\u{unit:04x}").expect("writing to a string");
    }
}

/// Copies the rest of a string whose opening quote has been read.
fn copy_string(chars: &mut impl Iterator<Item = char>, out: &mut String) {
    while let Some(c) = chars.next() {
        if is_active(c) {
            escape(c, out);
            continue;
        }
        out.push(c);
        match c {
            '"' => return,
            '\\' => out.extend(chars.next()),
            _ => {}
        }
    }
}

/// Deeper nesting is not indented further: hostile depth would cost its square.
const MAX_INDENT_DEPTH: usize = 40;

fn push_line_break(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth.min(MAX_INDENT_DEPTH) {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_and_changes_nothing_else() {
        let json = r#"{"z":1.0e2,"a":[1, {"b":"x,\"{y"} ,[ ], {}],"big":12345678901234567890123}"#;
        let expected = r#"{
  "z": 1.0e2,
  "a": [
    1,
    {
      "b": "x,\"{y"
    },
    [],
    {}
  ],
  "big": 12345678901234567890123
}"#;
        assert_eq!(pretty(json), expected);
        assert_eq!(pretty(expected), expected);
    }

    #[test]
    fn escapes_what_a_terminal_acts_on() {
        let json = "\"a\u{9b}\u{202e}\u{e0041}\"";
        assert_eq!(pretty(json), r#""a\u009b\u202e\udb40\udc41""#);
        assert_eq!(escape_active(json), pretty(json));
        let back: String = serde_json::from_str(&pretty(json)).unwrap();
        assert_eq!(back, "a\u{9b}\u{202e}\u{e0041}");
    }

    #[test]
    fn depth_costs_no_more_than_it_must() {
        let json = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(pretty(&json).len() < 2_000_000);
    }
}
