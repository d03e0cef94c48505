//! Owns how `auth` of a server is written. Hosts write some of it under other names; `host_auth`
//! handles what they write elsewhere in an entry.

use serde_json::json;

use super::fields::{Fields, Style};
use super::transport::squeeze;
use crate::auth::Dpop;
use crate::keys::{KeyTable as _, ValueKind};
use crate::problem::ProblemKind;
use crate::raw::{RawAuth, RawGrant, RawIdp, RawResourceIndicator};
use crate::report::{Finding, LocatedValue, Location};
use crate::suggest;
use crate::tree::{Key, Node, Value};

impl ValueKind for RawAuth {
    type Value = Self;
    const FORM: &str = "false or a table";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
        match node.value {
            Value::Bool(false) => Some(LocatedValue::new(Self::off(place.clone()), place)),
            Value::Bool(true) => {
                let finding = Finding::new(ProblemKind::InvalidValue, format!("must be {}", Self::FORM))
                    .hint("leave it out: bowline logs in when the server requires it");
                read.report.error(&place, finding);
                None
            }
            Value::Table(fields) if read.style == Style::Lenient => {
                Some(decode_hosts_table(read, fields, place))
            }
            Value::Table(fields) => Some(LocatedValue::new(read.keys(fields, &place), place)),
            other => read.wrong_type(&place, Self::FORM, &other),
        }
    }

    fn schema() -> serde_json::Value {
        json!({ "anyOf": [{ "const": false }, Self::table_schema()] })
    }
}

impl ValueKind for RawIdp {
    type Value = Self;
    const FORM: &str = "a table";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
        read.key_table(node, place)
    }

    fn schema() -> serde_json::Value {
        Self::table_schema()
    }
}

impl ValueKind for RawResourceIndicator {
    type Value = Self;
    const FORM: &str = "a URL or false";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
        match node.value {
            Value::Bool(false) => Some(LocatedValue::new(Self::Off, place)),
            Value::String(text) => Some(LocatedValue::new(Self::Uri(text), place)),
            other => read.wrong_type(&place, Self::FORM, &other),
        }
    }

    fn schema() -> serde_json::Value {
        json!({ "anyOf": [{ "const": false }, { "type": "string" }] })
    }
}

impl ValueKind for Dpop {
    type Value = Self;
    const FORM: &str = "\"auto\", true or false";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
        let dpop = match &node.value {
            Value::Bool(true) => Self::Always,
            Value::Bool(false) => Self::Never,
            Value::String(text) if text == "auto" => Self::Auto,
            Value::String(_) => {
                let message = format!("must be {}", Self::FORM);
                read.report.error(&place, Finding::new(ProblemKind::InvalidValue, message));
                return None;
            }
            other => return read.wrong_type(&place, Self::FORM, other),
        };
        Some(LocatedValue::new(dpop, place))
    }

    fn schema() -> serde_json::Value {
        json!({ "enum": ["auto", true, false] })
    }
}

/// Decodes the table of a host's file, which may spell keys differently and have others.
fn decode_hosts_table(
    read: &mut Fields<'_, '_>,
    fields: Vec<(Key, Node)>,
    table: Location,
) -> LocatedValue<RawAuth> {
    let mut raw = RawAuth::default();
    let mut given: Vec<&'static str> = Vec::new();
    for (key, node) in read.unique(fields, &table) {
        if matches!(node.value, Value::Null) {
            continue;
        }
        let place = table.join(&key.name, node.offset);
        let Some(name) = own_auth_key(&key.name) else {
            note_unused_key(read, &key.name, &place);
            continue;
        };
        if given.contains(&name) {
            let message = format!("gives `{name}` a second time");
            read.report.error(&place, Finding::new(ProblemKind::DuplicateKey, message));
            continue;
        }
        given.push(name);
        if name != ENABLED {
            raw.read_key(name, read, node, place);
            continue;
        }
        // Hosts turn logins off with `false`; `true` is the default and changes nothing.
        let enabled = read.boolean(&node, place.clone());
        if enabled.is_some_and(|it| !it.value) {
            raw.grant.get_or_insert(LocatedValue::new(RawGrant::Off, place));
        }
    }
    LocatedValue::new(raw, table)
}

/// Maps a key of the table in a host's file to ours.
pub(crate) fn own_auth_key(key: &str) -> Option<&'static str> {
    if let Some(own) = RawAuth::find(key) {
        return Some(own.name);
    }
    Some(match squeeze(key).as_str() {
        "clientid" => "client_id",
        "clientsecret" => "client_secret",
        "clientmetadataurl" => "client_metadata_url",
        "scopes" => "scope",
        "callbackport" | "redirectport" => "redirect_port",
        "callbackurl" | "redirecturi" | "redirecturl" => "redirect_uri",
        "enabled" => ENABLED,
        _ => return None,
    })
}

fn note_unused_key(read: &mut Fields<'_, '_>, key: &str, place: &Location) {
    let mut finding = Finding::new(ProblemKind::Ignored, "not used");
    finding.hint = match key {
        "authServerMetadataUrl" | "authorizationUrl" | "tokenUrl" => Some(
            "the server names its authorization server; if it names several, choose one with `issuer`"
                .to_owned(),
        ),
        other => suggest::closest(other, RawAuth::KEYS.iter().map(|own| own.name))
            .map(|meant| format!("did you mean `{meant}`?")),
    };
    read.report.note(place, finding);
}

/// A key that only hosts write.
const ENABLED: &str = "enabled";
