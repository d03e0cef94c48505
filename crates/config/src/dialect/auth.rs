//! Owns how `auth` of a server is written. Hosts write some of it under other names; `host_auth`
//! handles what they write elsewhere in an entry.

use super::fields::{Fields, Style};
use super::program;
use crate::auth::Dpop;
use crate::problem::ProblemKind;
use crate::raw::{ALGORITHMS, CLIENT_AUTH, RawApp, RawAuth, RawGrant, RawIdp, RawResourceIndicator};
use crate::report::{Finding, Located, Location, Report};
use crate::suggest;
use crate::tree::{Key, Node, Value};

/// Decodes `auth`: `false`, or a table.
pub(super) fn decode_auth(
    read: &mut Fields<'_, '_>,
    node: Node,
    place: Location,
) -> Option<Located<RawAuth>> {
    match node.value {
        Value::Bool(false) => Some(Located::new(RawAuth::off(place.clone()), place)),
        Value::Bool(true) => {
            let finding = Finding::new(ProblemKind::InvalidValue, "must be false or a table")
                .hint("leave it out: a login is had where the server wants one");
            read.report.error(&place, finding);
            None
        }
        Value::Table(fields) => Some(decode_auth_table(read, fields, place)),
        other => {
            read.report_wrong_type(&place, "false or a table", &other);
            None
        }
    }
}

/// Decodes the table, with our keys or a host's.
pub(super) fn decode_auth_table(
    read: &mut Fields<'_, '_>,
    fields: Vec<(Key, Node)>,
    table: Location,
) -> Located<RawAuth> {
    let mut raw = RawAuth::default();
    let mut given: Vec<&'static str> = Vec::new();
    for (key, node) in read.unique(fields, &table) {
        if read.style == Style::Lenient && matches!(node.value, Value::Null) {
            continue;
        }
        let place = table.join(&key.name, node.offset);
        let Some(name) = canonical_key(&key.name, read.style) else {
            report_unknown_key(read, &key, &table, place, &mut raw);
            continue;
        };
        if given.contains(&name) {
            let message = format!("gives `{name}` a second time");
            read.report.error(&place, Finding::new(ProblemKind::DuplicateKey, message));
            continue;
        }
        given.push(name);
        let found = decode_field(read, &mut raw, name, node, place);
        raw.garbled.extend((!found).then_some(name));
    }
    Located::new(raw, table)
}

/// Reads one field; false if it could not be.
fn decode_field(
    read: &mut Fields<'_, '_>,
    raw: &mut RawAuth,
    name: &str,
    node: Node,
    place: Location,
) -> bool {
    fn put<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
        *slot = value;
        slot.is_some()
    }
    match name {
        "grant" => put(&mut raw.grant, read.choice(node, place, RawGrant::ALL)),
        "client_id" => put(&mut raw.client_id, read.string(node, place)),
        "client_secret" => put(&mut raw.client_secret, read.string(node, place)),
        "client_auth" => put(&mut raw.client_auth, read.choice(node, place, CLIENT_AUTH)),
        "private_key" => put(&mut raw.private_key, read.string(node, place)),
        "key_id" => put(&mut raw.key_id, read.string(node, place)),
        "algorithm" => {
            let known = ALGORITHMS.map(|name| (name, name));
            let chosen = read.choice(node, place, known);
            put(&mut raw.algorithm, chosen.map(|it| Located::new(it.value.to_owned(), it.place)))
        }
        "audience" => put(&mut raw.audience, read.string(node, place)),
        "client_metadata_url" => put(&mut raw.client_metadata_url, read.string(node, place)),
        "scope" => put(&mut raw.scope, read.one_or_more(node, place)),
        "resource" => put(&mut raw.resource, decode_resource(read, node, place)),
        "issuer" => put(&mut raw.issuer, read.string(node, place)),
        "account" => put(&mut raw.account, read.string(node, place)),
        "redirect_port" => put(&mut raw.redirect_port, read.port(&node, place)),
        "redirect_uri" => put(&mut raw.redirect_uri, read.string(node, place)),
        "authorize_params" => put(&mut raw.authorize_params, read.map(node, place)),
        "dpop" => put(&mut raw.dpop, decode_dpop(read, node, place)),
        "assertion" => put(&mut raw.assertion, program::decode_token_source(read, node, place)),
        "idp" => put(&mut raw.idp, decode_idp(read, node, place)),
        ENABLED => {
            // Hosts turn logins off with `false`; `true` is the default and changes nothing.
            let enabled = read.boolean(&node, place.clone());
            if enabled.as_ref().is_some_and(|it| !it.value) {
                raw.grant.get_or_insert(Located::new(RawGrant::Off, place));
            }
            enabled.is_some()
        }
        _ => unreachable!("every name that is known is read"),
    }
}

/// Decodes the table `[auth]`.
pub(super) fn decode_app(node: Node, table: &Location, report: &mut Report<'_>) -> Option<RawApp> {
    let mut read = Fields { report, style: Style::Strict };
    let mut raw = RawApp::default();
    for (key, node) in read.table(node, table)? {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "client_name" => raw.client_name = read.string(node, place),
            "client_metadata_url" => raw.client_metadata_url = read.string(node, place),
            unknown => {
                let place = table.join(unknown, key.offset);
                if RawAuth::KEYS.contains(&unknown) {
                    let finding = Finding::new(ProblemKind::UnknownKey, "belongs to one server")
                        .hint("write it in `[servers.NAME.auth]`");
                    read.report.error(&place, finding);
                } else {
                    program::report_unknown_key(read.report, &place, suggest::closest(unknown, RawApp::KEYS));
                }
            }
        }
    }
    Some(raw)
}

fn decode_idp(read: &mut Fields<'_, '_>, node: Node, table: Location) -> Option<Located<RawIdp>> {
    let mut raw = RawIdp::default();
    for (key, node) in read.table(node, &table)? {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "token_endpoint" => {
                raw.token_endpoint = read.string(node, place);
                raw.garbled.extend(raw.token_endpoint.is_none().then_some("token_endpoint"));
            }
            "client_id" => {
                raw.client_id = read.string(node, place);
                raw.garbled.extend(raw.client_id.is_none().then_some("client_id"));
            }
            "client_secret" => raw.client_secret = read.string(node, place),
            "id_token" => {
                raw.id_token = program::decode_token_source(read, node, place);
                raw.garbled.extend(raw.id_token.is_none().then_some("id_token"));
            }
            unknown => {
                let meant = suggest::closest(unknown, RawIdp::KEYS);
                raw.garbled.extend(meant);
                program::report_unknown_key(read.report, &table.join(unknown, key.offset), meant);
            }
        }
    }
    Some(Located::new(raw, table))
}

fn decode_resource(
    read: &mut Fields<'_, '_>,
    node: Node,
    place: Location,
) -> Option<Located<RawResourceIndicator>> {
    match node.value {
        Value::Bool(false) => Some(Located::new(RawResourceIndicator::Off, place)),
        Value::String(text) => Some(Located::new(RawResourceIndicator::Uri(text), place)),
        other => {
            read.report_wrong_type(&place, "a URL or false", &other);
            None
        }
    }
}

fn decode_dpop(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<Located<Dpop>> {
    let dpop = match &node.value {
        Value::Bool(true) => Dpop::Always,
        Value::Bool(false) => Dpop::Never,
        Value::String(text) if text == "auto" => Dpop::Auto,
        Value::String(_) => {
            let message = "must be \"auto\", true or false";
            read.report.error(&place, Finding::new(ProblemKind::InvalidValue, message));
            return None;
        }
        other => {
            read.report_wrong_type(&place, "\"auto\", true or false", other);
            return None;
        }
    };
    Some(Located::new(dpop, place))
}

/// Maps a key to ours. Our own dialect has only those; hosts spell some of them differently.
fn canonical_key(key: &str, style: Style) -> Option<&'static str> {
    if let Some(own) = RawAuth::KEYS.into_iter().find(|own| *own == key) {
        return Some(own);
    }
    if style == Style::Strict {
        return None;
    }
    let squeezed: String =
        key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    Some(match squeezed.as_str() {
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

fn report_unknown_key(
    read: &mut Fields<'_, '_>,
    key: &Key,
    table: &Location,
    place: Location,
    raw: &mut RawAuth,
) {
    if read.style == Style::Lenient {
        let mut finding = Finding::new(ProblemKind::Ignored, "not used");
        finding.hint = match key.name.as_str() {
            "authServerMetadataUrl" | "authorizationUrl" | "tokenUrl" => Some(
                "the server says who gives out its tokens; where it names several, choose with `issuer`"
                    .to_owned(),
            ),
            other => suggest::closest(other, RawAuth::KEYS).map(|meant| format!("did you mean `{meant}`?")),
        };
        read.report.note(&place, finding);
        return;
    }
    let place = table.join(&key.name, key.offset);
    if matches!(key.name.as_str(), "token" | "access_token" | "bearer_token") {
        let finding = Finding::new(ProblemKind::UnknownKey, "unknown key")
            .hint("write `headers = { Authorization = \"Bearer ${VAR}\" }` beside `url`");
        read.report.error(&place, finding);
        return;
    }
    let meant = suggest_key(&key.name);
    raw.garbled.extend(meant);
    program::report_unknown_key(read.report, &place, meant);
}

/// Guesses which key an unknown one stands for.
fn suggest_key(key: &str) -> Option<&'static str> {
    match key {
        "type" | "flow" | "grant_type" | "method" => Some("grant"),
        "token_endpoint_auth_method" => Some("client_auth"),
        "key" | "key_file" => Some("private_key"),
        "kid" => Some("key_id"),
        "alg" => Some("algorithm"),
        "port" | "callback_port" | "callbackPort" => Some("redirect_port"),
        "callback_url" | "callback" | "redirect" => Some("redirect_uri"),
        "params" | "extra_params" => Some("authorize_params"),
        "login_hint" | "user" => Some("account"),
        _ => suggest::closest(key, RawAuth::KEYS),
    }
}

/// A key that only hosts write.
const ENABLED: &str = "enabled";
