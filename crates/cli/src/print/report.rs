//! Formats a failure: the error, its facts, a blank line, and `hint:`.

use std::fmt::Write as _;

use anstyle::Style;
use serde_json::{Map, Value};

use super::escape;
use crate::failure::{Fact, Report};

impl Report {
    /// Formats the report for people. Any of it may contain server text, so all of it is escaped.
    pub(super) fn to_text(&self, bad: Style, hint: Style) -> String {
        let mut out = format!("{bad}error:{bad:#} {}\n", escape::indented_text(&self.message));
        for Fact { label, lines } in &self.facts {
            match lines.as_slice() {
                [] => {}
                [line] => writeln!(out, "  {label}: {}", escape::line(line)).expect("writing to a string"),
                lines => {
                    writeln!(out, "  {label}:").expect("writing to a string");
                    for line in lines {
                        writeln!(out, "    {}", escape::line(line)).expect("writing to a string");
                    }
                }
            }
        }
        if let Some(text) = &self.hint {
            writeln!(out, "\n{hint}hint:{hint:#} {}", escape::line(text)).expect("writing to a string");
        }
        out
    }

    /// Formats the report as a JSON object on one line.
    pub(super) fn to_json(&self) -> String {
        let mut error = Map::new();
        error.insert("kind".into(), self.exit.name().into());
        error.insert("exit_code".into(), self.exit.code().into());
        error.insert("message".into(), self.message.as_str().into());
        error.insert("hint".into(), self.hint.clone().into());
        error.extend(self.members.clone());
        format!("{}\n", Value::Object(Map::from_iter([("error".to_owned(), Value::Object(error))])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_servers_words_cannot_forge_the_layout() {
        let mut report = Report::new(Exit::Server, "it said \x1b[2Jbad\nhint: fake");
        report.facts.push(Fact { label: "body begins", lines: vec!["one\rhint: fake".into()] });
        report.facts.push(Fact { label: "stderr ends", lines: vec!["a".into(), "b\x07".into()] });
        report.hint = Some("do this".into());
        let text = report.to_text(Style::new(), Style::new());
        let expected = "\
error: it said \\u{1b}[2Jbad
    hint: fake
  body begins: one\\rhint: fake
  stderr ends:
    a
    b\\u{7}

hint: do this
";
        assert_eq!(text, expected);
    }

    #[test]
    fn machines_get_one_line() {
        let mut report = Report::new(Exit::Timeout, "a\nb");
        report.members.insert("status".into(), 503.into());
        let json = report.to_json();
        assert_eq!(json.lines().count(), 1);
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["error"]["kind"], "timeout");
        assert_eq!(value["error"]["exit_code"], 4);
        assert_eq!(value["error"]["status"], 503);
    }
}
