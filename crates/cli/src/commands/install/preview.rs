//! Shows a change of a host's file as a diff, without the values that are in the file: they may be
//! secrets.

mod changed_line;

use bowline_hosts::FileFormat;

use self::changed_line::ChangedLine;
use super::FileChange;
use crate::print::{BAD, FAINT, GOOD, Printer, escape};

/// A line of a diff, and what is shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DiffLine {
    kind: LineKind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Kept,
    Removed,
    Added,
}

/// Lines that are shown around a change.
const CONTEXT_LINES: usize = 3;
/// Largest product of changed lines for which the shortest diff is searched.
const MAX_DIFF_CELLS: usize = 4_000_000;
/// What stands for a value.
const HIDDEN: &str = "…";

/// Formats a change as a unified diff.
pub(super) fn render(change: &FileChange, printer: &Printer) -> String {
    let path = change.path.display().to_string();
    let mut out = String::new();
    for (sign, text) in [("---", &change.before), ("+++", &change.after)] {
        let name = if text.is_some() { escape::line(&path) } else { "/dev/null".into() };
        out.push_str(&printer.paint(FAINT, &format!("{sign} {name}")));
        out.push('\n');
    }
    for line in diff_lines(change) {
        let style = match line.as_bytes().first() {
            Some(b'+') => Some(GOOD),
            Some(b'-') => Some(BAD),
            Some(b'@') => Some(FAINT),
            _ => None,
        };
        let line = escape::line(&line);
        out.push_str(&style.map_or_else(|| line.to_string(), |style| printer.paint(style, &line)));
        out.push('\n');
    }
    out
}

/// The lines of the diff without its header, for a person or a machine.
pub(super) fn diff_lines(change: &FileChange) -> Vec<String> {
    let format = change.host.file_format();
    let (before, after) = (change.before.as_deref().unwrap_or(""), change.after.as_deref().unwrap_or(""));
    let lines = compare(before, after);
    let shown = |at: usize| {
        let line = &lines[at];
        let changed_part = || find_changed_line(&lines, at, format)?.show(&change.own_texts);
        let own_part = || own_part(&line.text, &change.own_texts);
        let text = match line.kind {
            LineKind::Kept => None,
            LineKind::Removed | LineKind::Added => changed_part().or_else(own_part),
        };
        let text = text.unwrap_or_else(|| outline_line(&line.text, format));
        let sign = match line.kind {
            LineKind::Kept => ' ',
            LineKind::Removed => '-',
            LineKind::Added => '+',
        };
        format!("{sign}{text}")
    };
    let mut out = Vec::new();
    for hunk in find_hunks(&lines) {
        let count =
            |lines: &[DiffLine], other: LineKind| lines.iter().filter(|line| line.kind != other).count();
        let (head, body) = (&lines[..hunk.start], &lines[hunk.clone()]);
        let (old, new) = (count(body, LineKind::Added), count(body, LineKind::Removed));
        let start = |skipped: usize, length: usize| if length == 0 { skipped } else { skipped + 1 };
        out.push(format!(
            "@@ -{},{old} +{},{new} @@",
            start(count(head, LineKind::Added), old),
            start(count(head, LineKind::Removed), new),
        ));
        out.extend(hunk.map(shown));
    }
    out
}

/// The parts of the diff that have changes, with a few lines around them.
fn find_hunks(lines: &[DiffLine]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.kind != LineKind::Kept) {
        let (start, end) = (at.saturating_sub(CONTEXT_LINES), (at + 1 + CONTEXT_LINES).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

/// The line of a pair in JSON: one line that was removed, and one that came in its place.
fn find_changed_line(lines: &[DiffLine], at: usize, format: FileFormat) -> Option<ChangedLine<'_>> {
    let kind = lines[at].kind;
    let is_of = |index: Option<usize>, kind: LineKind| {
        index.and_then(|index| lines.get(index)).is_some_and(|line| line.kind == kind)
    };
    let (old, new) = if kind == LineKind::Removed { (at, at + 1) } else { (at.checked_sub(1)?, at) };
    let is_pair = is_of(Some(old), LineKind::Removed) && is_of(Some(new), LineKind::Added);
    let is_longer = is_of(old.checked_sub(1), LineKind::Removed) || is_of(Some(new + 1), LineKind::Added);
    if format != FileFormat::Json || !is_pair || is_longer {
        return None;
    }
    let other = if at == old { new } else { old };
    Some(ChangedLine { line: &lines[at].text, other: &lines[other].text })
}

/// Compares two texts by lines.
fn compare(before: &str, after: &str) -> Vec<DiffLine> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let same_head = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let rest = before.len().min(after.len()) - same_head;
    let same_tail =
        before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (old, new) =
        (&before[same_head..before.len() - same_tail], &after[same_head..after.len() - same_tail]);
    let line = |kind, text: &&str| DiffLine { kind, text: text.trim_end_matches(['\r', '\n']).to_owned() };
    let mut lines: Vec<DiffLine> =
        before[..same_head].iter().map(|text| line(LineKind::Kept, text)).collect();
    let kept = if old.len().saturating_mul(new.len()) <= MAX_DIFF_CELLS {
        longest_common_lines(old, new)
    } else {
        Vec::new()
    };
    let (mut old_at, mut new_at) = (0, 0);
    for (old_kept, new_kept) in kept.into_iter().chain([(old.len(), new.len())]) {
        lines.extend(old[old_at..old_kept].iter().map(|text| line(LineKind::Removed, text)));
        lines.extend(new[new_at..new_kept].iter().map(|text| line(LineKind::Added, text)));
        lines.extend(old.get(old_kept).map(|text| line(LineKind::Kept, text)));
        (old_at, new_at) = ((old_kept + 1).min(old.len()), (new_kept + 1).min(new.len()));
    }
    lines.extend(before[before.len() - same_tail..].iter().map(|text| line(LineKind::Kept, text)));
    lines
}

/// The lines that two texts share, as pairs of their indices.
fn longest_common_lines(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i * width + j] = if old[i] == new[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// The part of a line that is an entry of bowline, which has no secrets.
fn own_part(line: &str, own_texts: &[String]) -> Option<String> {
    for text in own_texts {
        if text.lines().any(|own| own == line) {
            return Some(line.to_owned());
        }
        let text = text.trim();
        if !text.is_empty() && !text.contains('\n') && line.contains(text) {
            return Some(format!("{HIDDEN} {text} {HIDDEN}"));
        }
    }
    None
}

/// What is shown of a line that is not ours: its key and its brackets.
fn outline_line(line: &str, format: FileFormat) -> String {
    let content = line.trim_start();
    let indent = &line[..line.len() - content.len()];
    let content = content.trim_end();
    if is_structure(content) {
        return line.trim_end().to_owned();
    }
    if format == FileFormat::Toml && is_table_header(content) {
        return line.trim_end().to_owned();
    }
    let Some((key, value)) = split_key(content, format) else { return format!("{indent}{HIDDEN}") };
    let value = value.trim();
    if is_structure(value) {
        return format!("{indent}{key}{}{value}", if value.is_empty() { "" } else { " " });
    }
    let comma = if format == FileFormat::Json && value.ends_with(',') { "," } else { "" };
    format!("{indent}{key} {HIDDEN}{comma}")
}

/// Whether a line of TOML is the header of a table, and not a list of texts.
fn is_table_header(content: &str) -> bool {
    let name = content.trim_start_matches('[');
    name.len() < content.len()
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(']')
        && !name.contains(['=', '#', ','])
}

fn is_structure(text: &str) -> bool {
    text.chars().all(|c| "{}[], ".contains(c))
}

/// Splits a line after its key and the sign behind that.
fn split_key(content: &str, format: FileFormat) -> Option<(&str, &str)> {
    let at = match format {
        FileFormat::Json => {
            let key = content.strip_prefix('"')?;
            let end = key.find(['"', '\\']).filter(|end| key[*end..].starts_with("\":"))?;
            end + 3
        }
        FileFormat::Toml => content.find('=').map(|at| at + 1)?,
        FileFormat::Yaml => content.find(": ").or_else(|| content.strip_suffix(':').map(str::len))? + 1,
    };
    let (key, value) = content.split_at(at);
    let name = key.trim_end_matches([':', '=', ' ']).trim_matches(['"', '\'']);
    // A text of several lines may have colons too; a key in YAML rarely has blanks.
    let is_text = format == FileFormat::Yaml && name.trim_start_matches("- ").contains(' ');
    (!is_text && is_shown_key(name)).then_some((key, value))
}

/// Whether a key looks like a name. Others are not shown.
fn is_shown_key(name: &str) -> bool {
    name.len() <= MAX_KEY_BYTES && name.chars().all(|c| c.is_alphanumeric() || "_-.@/$ ".contains(c))
}

/// Longer keys are not shown.
const MAX_KEY_BYTES: usize = 60;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use bowline_hosts::Host;

    use super::*;

    fn change(host: Host, before: &str, after: &str, own: &str) -> FileChange {
        FileChange {
            host,
            path: PathBuf::from("/f"),
            before: Some(before.to_owned()),
            after: Some(after.to_owned()),
            own_texts: vec![own.to_owned()],
        }
    }

    #[test]
    fn values_of_the_file_are_not_shown() {
        for (format, line, shown) in [
            (FileFormat::Json, r#"  "Authorization": "Bearer x","#, r#"  "Authorization": …,"#),
            (FileFormat::Json, r#"  "env": { "KEY": "x" }"#, r#"  "env": …"#),
            (FileFormat::Json, r#"  "mcpServers": {"#, r#"  "mcpServers": {"#),
            (FileFormat::Json, r#"  "a": {},"#, r#"  "a": {},"#),
            (FileFormat::Json, "  },", "  },"),
            (FileFormat::Json, r#"    "--token=x","#, "    …"),
            (FileFormat::Json, "  // my key is x", "  …"),
            (FileFormat::Json, r#"  "sk\"-x": 1"#, "  …"),
            (FileFormat::Json, r#"  "a": 12345"#, r#"  "a": …"#),
            (FileFormat::Toml, "[mcp_servers.a]", "[mcp_servers.a]"),
            (FileFormat::Toml, "key = \"x\" # y", "key = …"),
            (FileFormat::Toml, "[\"x\", \"y\"],", "…"),
            (FileFormat::Toml, "[\"x\"]", "…"),
            (FileFormat::Toml, "x continues", "…"),
            (FileFormat::Yaml, "  my key is x: y", "  …"),
            (FileFormat::Yaml, "  fetch:", "  fetch:"),
            (FileFormat::Yaml, "  key: x", "  key: …"),
            (FileFormat::Yaml, "  - x", "  …"),
            (FileFormat::Yaml, "# x", "…"),
        ] {
            assert_eq!(outline_line(line, format), shown, "{line}");
        }
    }

    #[test]
    fn an_insertion_is_shown_with_lines_around_it() {
        let before = "{\n  \"a\": 1,\n  \"m\": {\n    \"x\": {\n      \"k\": \"secret\"\n    }\n  }\n}\n";
        let own = "\n    \"b\": {\n      \"k\": \"v\"\n    },";
        let after = before.replace("\"m\": {", &format!("\"m\": {{{own}"));
        let expected = [
            "@@ -1,6 +1,9 @@",
            " {",
            "   \"a\": …,",
            "   \"m\": {",
            "+    \"b\": {",
            "+      \"k\": \"v\"",
            "+    },",
            "     \"x\": {",
            "       \"k\": …",
            "     }",
        ];
        assert_eq!(diff_lines(&change(Host::Cursor, before, &after, own)), expected);
        let mut reversed: Vec<String> = expected.iter().map(|line| line.replacen('+', "-", 1)).collect();
        reversed[0] = "@@ -1,9 +1,6 @@".to_owned();
        assert_eq!(diff_lines(&change(Host::Cursor, &after, before, own)), reversed);
    }

    #[test]
    fn only_our_part_of_a_line_is_shown() {
        let (before, own) = (r#"{"m":{"a":{"k":"secret"}}}"#, r#""b":{"k":"v"},"#);
        let after = before.replace(r#""m":{"#, &format!(r#""m":{{{own}"#));
        let lines = diff_lines(&change(Host::Cursor, before, &after, own));
        assert_eq!(
            lines,
            ["@@ -1,1 +1,1 @@", r#"-{"m":{"a":{"k":…}}}"#, r#"+{"m":{"b":{"k":"v"},"a":{"k":…}}}"#]
        );
        // In other formats there are no tokens to tell apart.
        let (before, own) = ("extensions: {a: {k: secret}}", "b: {k: v}");
        let after = before.replace("{a", &format!("{{{own}, a"));
        let lines = diff_lines(&change(Host::Goose, before, &after, own));
        assert_eq!(lines, ["@@ -1,1 +1,1 @@", "-extensions: …", "+… b: {k: v} …"]);
    }

    /// The file of a host that writes everything on one line.
    #[test]
    fn the_changed_part_of_a_long_line_is_shown() {
        let filler = r#""x":["secret",1,true],"#.repeat(1000);
        let before = format!(r#"{{{filler}"mcpServers":{{"a":{{"k":"secret"}}}},{filler}"end":null}}"#);
        let own = r#""b":{"k":"v"},"#;
        let after = before.replace(r#""mcpServers":{"#, &format!(r#""mcpServers":{{{own}"#));
        let head = r#"…],"x":[…,…,…],"x":[…,…,…],"mcpServers":{"#;
        let tail = r#""a":{"k":…}},"x":[…,…,…],"x":[…,…,…],"x"…"#;
        let (without, with) = (format!("{head}{tail}"), format!("{head}{own}{tail}"));
        let lines = diff_lines(&change(Host::Cursor, &before, &after, own));
        assert_eq!(lines, ["@@ -1,1 +1,1 @@".to_owned(), format!("-{without}"), format!("+{with}")]);
        // An entry that was written by hand is shown without its values.
        let lines = diff_lines(&change(Host::Cursor, &after, &before, ""));
        let with = format!(r#"{head}"b":{{"k":…}},{tail}"#);
        assert_eq!(lines, ["@@ -1,1 +1,1 @@".to_owned(), format!("-{with}"), format!("+{without}")]);
    }

    #[test]
    fn a_file_that_is_new_has_no_old_lines() {
        let mut new = change(Host::Codex, "", "[a]\nb = 1\n", "[a]\nb = 1\n");
        new.before = None;
        assert_eq!(diff_lines(&new), ["@@ -0,0 +1,2 @@", "+[a]", "+b = 1"]);
    }
}
