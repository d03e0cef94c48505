//! Formats structured content: a list of objects as a table, text as text, everything else as JSON.

use bowline::Json;
use bowline::types::Content;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::grid::{Cell, Grid};
use super::{Printer, units};

/// Structured content as it is shown.
pub(crate) struct StructuredContent {
    /// The value that is shown.
    json: Json,
    /// The whole value, to find text blocks that repeat it.
    value: Option<Value>,
    unwrapped: Option<Value>,
}

/// The form in which it is shown.
#[derive(Debug, PartialEq)]
pub(crate) enum Rendering {
    Text(String),
    Table(String),
    Json(String),
}

/// Revisions before 2026-07-28 allow only objects, so libraries wrap other results in this member.
const WRAPPER: &str = "result";

impl StructuredContent {
    /// Takes `structuredContent` with the content blocks. The wrapper is removed if a block has the
    /// value without it.
    pub(crate) fn new(json: &Json, blocks: &[Content]) -> Self {
        let same = json.decode::<Value>().ok();
        let inner = same.as_ref().and_then(Value::as_object).filter(|members| members.len() == 1);
        let inner = inner.and_then(|members| members.get(WRAPPER)).cloned();
        let mut found = Self { json: json.clone(), value: same, unwrapped: inner };
        let wrapped = found
            .unwrapped
            .as_ref()
            .is_some_and(|inner| blocks.iter().any(|block| block_equals(block, inner)));
        match json.member(WRAPPER) {
            Some(inner) if wrapped => found.json = inner,
            _ => found.unwrapped = None,
        }
        found
    }

    /// Returns whether a block repeats the value, as servers are asked to do.
    pub(crate) fn is_repeated_by(&self, block: &Content) -> bool {
        [&self.value, &self.unwrapped].into_iter().flatten().any(|value| block_equals(block, value))
    }

    /// Renders the content for stdout. In a pipe it stays JSON, for programs that read it.
    pub(crate) fn render(&self, printer: &Printer) -> Rendering {
        if let Ok(text) = self.json.decode::<String>() {
            return Rendering::Text(text);
        }
        let json = self.json.as_str();
        if !printer.on_terminal() {
            return Rendering::Json(json.to_owned());
        }
        match render_table(json, printer) {
            Some(table) => Rendering::Table(table),
            None => Rendering::Json(json.to_owned()),
        }
    }
}

fn block_equals(block: &Content, value: &Value) -> bool {
    let Content::Text(block) = block else { return false };
    let text = block.text.get();
    value.as_str() == Some(&*text)
        || serde_json::from_str::<Value>(&text).is_ok_and(|said| is_same_json(&said, value))
}

/// Whether two values are the same JSON: a number is the same however it is written.
fn is_same_json(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_json(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_in_other = |(name, value)| other.get(name).is_some_and(|other| is_same_json(value, other));
            one.len() == other.len() && one.iter().all(is_in_other)
        }
        _ => one == other,
    }
}

/// Renders a table from a list of objects with few members, or from an object that holds only such
/// a list.
fn render_table(json: &str, printer: &Printer) -> Option<String> {
    if let Ok(rows) = serde_json::from_str::<Rows>(json) {
        return build_grid(rows)?.render(printer);
    }
    let Members(members) = serde_json::from_str::<Members>(json).ok()?;
    let [(name, inner)] = members.as_slice() else { return None };
    let table = build_grid(serde_json::from_str(inner.get()).ok()?)?.render(printer)?;
    Some(format!("{}:\n{table}", super::escape::line(name)))
}

fn build_grid(rows: Rows) -> Option<Grid> {
    let Rows { rows, more } = rows;
    let mut columns: Vec<String> = Vec::new();
    for Members(members) in &rows {
        for (name, _) in members {
            if !columns.contains(name) {
                columns.push(name.clone());
                if columns.len() > MAX_COLUMNS {
                    return None;
                }
            }
        }
    }
    if columns.is_empty() {
        return None;
    }
    let cells = |Members(members): &Members| -> Vec<Cell> {
        let of = |column: &String| members.iter().rev().find(|(name, _)| name == column);
        columns
            .iter()
            .map(|column| of(column).map_or_else(Cell::default, |(_, value)| json_cell(value)))
            .collect()
    };
    let rows: Vec<Vec<Cell>> = rows.iter().map(cells).collect();
    let rest = (more > 0).then(|| format!("… and {} more; --json shows all", units::count(more, "row")));
    Some(Grid { columns, rows, omitted_note: rest })
}

/// Converts a value to a cell: text without quotes, nothing for `null`, everything else unchanged.
fn json_cell(value: &RawValue) -> Cell {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'"') => Cell::text(serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())),
        Some(b'n') => Cell::default(),
        Some(b'-' | b'0'..=b'9') => Cell::number(json.to_owned()),
        _ => Cell::text(json.to_owned()),
    }
}

/// More columns are not shown as a table.
const MAX_COLUMNS: usize = 16;
/// More rows are only counted.
const MAX_ROWS: usize = 1_000;

/// The members of an object in their order, which a map would not keep.
struct Members(Vec<(String, Box<RawValue>)>);

/// The first elements of a list of objects, and how many more there are.
struct Rows {
    rows: Vec<Members>,
    more: usize,
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, Box<RawValue>>()? {
                    // One member too many is enough to reject the table.
                    if members.len() <= MAX_COLUMNS {
                        members.push(member);
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Rows;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Rows, A::Error> {
                let mut rows = Vec::new();
                while rows.len() < MAX_ROWS {
                    match list.next_element::<Members>()? {
                        Some(row) => rows.push(row),
                        None => return Ok(Rows { rows, more: 0 }),
                    }
                }
                let mut more = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    more += 1;
                }
                Ok(Rows { rows, more })
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Content {
        let block = serde_json::json!({"type": "text", "text": text});
        Content::decode(&Json::encode(&block).unwrap()).unwrap()
    }

    fn of(json: &str, blocks: &[Content]) -> StructuredContent {
        StructuredContent::new(&Json::parse(json.to_owned()).unwrap(), blocks)
    }

    #[test]
    fn repeated_text_is_detected() {
        let plain = of(r#"{"a": 1.0}"#, &[]);
        assert!(plain.is_repeated_by(&text("{ \"a\":1.0 }")));
        assert!(plain.is_repeated_by(&text("{\"a\": 1}")), "a number is the same however it is written");
        assert!(!plain.is_repeated_by(&text("{\"a\":1,\"b\":null}")));
        assert!(!plain.is_repeated_by(&text("{\"a\":2}")));
        assert!(!plain.is_repeated_by(&text("a is 1")));
        // TL-05: whatever the value is.
        assert!(of("null", &[]).is_repeated_by(&text("null")));
        assert!(of("\"knot\"", &[]).is_repeated_by(&text("knot")));
    }

    #[test]
    fn wrapper_is_removed_if_the_text_has_none() {
        let blocks = [text("sunny")];
        let weather = of(r#"{"result": "sunny"}"#, &blocks);
        assert_eq!(weather.json.as_str(), "\"sunny\"");
        assert!(weather.is_repeated_by(&blocks[0]));
        for (json, block) in [(r#"{"result":"sunny"}"#, "rain"), (r#"{"result":1,"more":2}"#, "1")] {
            assert_eq!(of(json, &[text(block)]).json.as_str(), json);
        }
    }

    #[test]
    fn lists_of_objects_have_columns() {
        let rows = |json: &str| serde_json::from_str::<Rows>(json).ok().and_then(build_grid);
        let grid = rows(r#"[{"z": "é\n", "a": 1}, {"a": null, "b": {"x": [1]}}]"#).unwrap();
        assert_eq!(grid.columns, ["z", "a", "b"]);
        assert_eq!(grid.rows[0].iter().map(|cell| &*cell.text).collect::<Vec<_>>(), ["é\n", "1", ""]);
        assert_eq!(grid.rows[1][2].text, r#"{"x": [1]}"#);
        for none in ["[]", "[1]", "{}", "[{}]", "[{\"a\":1}, 2]"] {
            assert!(rows(none).is_none(), "{none}");
        }
        let wide: Vec<String> = (0..40).map(|n| format!("\"c{n}\":1")).collect();
        assert!(rows(&format!("[{{{}}}]", wide.join(","))).is_none());
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let json = format!("[{}{{}}]", "{\"n\":1},".repeat(MAX_ROWS + 4));
        let grid = build_grid(serde_json::from_str(&json).unwrap()).unwrap();
        assert_eq!(grid.rows.len(), MAX_ROWS);
        assert_eq!(grid.omitted_note.as_deref(), Some("… and 5 rows more; --json shows all"));
    }
}
