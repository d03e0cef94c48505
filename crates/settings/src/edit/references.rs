//! Finds the files that a configuration names in its strings.

use std::collections::BTreeSet;

use bowline_config::find_placeholders;
use toml_edit::{Item, Table, Value};

/// Returns the paths in `{file:path}`, as they are written.
pub(super) fn find_files(table: &Table) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    visit_table(table, &mut |text| files.extend(files_in(text)));
    files
}

fn files_in(text: &str) -> impl Iterator<Item = String> {
    find_placeholders(text).into_iter().filter_map(|placeholder| {
        let path = text[placeholder.range].strip_prefix("{file:")?.strip_suffix('}')?;
        Some(path.trim().to_owned())
    })
}

fn visit_table(table: &Table, visit: &mut dyn FnMut(&str)) {
    for (_, item) in table {
        match item {
            Item::None => {}
            Item::Value(value) => visit_value(value, visit),
            Item::Table(below) => visit_table(below, visit),
            Item::ArrayOfTables(all) => all.iter().for_each(|below| visit_table(below, visit)),
        }
    }
}

fn visit_value(value: &Value, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => visit(text.value()),
        Value::Array(values) => values.iter().for_each(|value| visit_value(value, visit)),
        Value::InlineTable(table) => table.iter().for_each(|(_, value)| visit_value(value, visit)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}
