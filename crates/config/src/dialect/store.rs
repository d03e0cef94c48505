//! Owns how the table `[store]` is written.

use super::fields::{Fields, Style};
use crate::problem::ProblemKind;
use crate::raw::{BACKENDS, KEY_LOCATIONS, RawStore};
use crate::report::{Finding, Located, Location, Report};
use crate::suggest;
use crate::tree::Node;

pub(super) fn decode_store(
    node: Node,
    table: Location,
    report: &mut Report<'_>,
) -> Option<Located<RawStore>> {
    let mut read = Fields { report, style: Style::Strict };
    let mut raw = RawStore::default();
    for (key, node) in read.table(node, &table)? {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "backend" => {
                raw.backend = read.choice(node, place, BACKENDS);
                raw.garbled.extend(raw.backend.is_none().then_some("backend"));
            }
            "path" => raw.path = read.string(node, place),
            "url" => {
                raw.url = read.string(node, place);
                raw.garbled.extend(raw.url.is_none().then_some("url"));
            }
            "key" => raw.key = read.choice(node, place, KEY_LOCATIONS),
            unknown => {
                let meant = match unknown {
                    "type" | "kind" => Some("backend"),
                    "file" => Some("path"),
                    "uri" | "server" => Some("url"),
                    _ => suggest::closest(unknown, RawStore::KEYS),
                };
                raw.garbled.extend(meant);
                let mut finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
                finding.hint = meant.map(|meant| format!("did you mean `{meant}`?"));
                read.report.error(&table.join(unknown, key.offset), finding);
            }
        }
    }
    Some(Located::new(raw, table))
}
