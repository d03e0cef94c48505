//! Implements `bowline info`.

use std::fmt::Write as _;

use bowline::{Era, Json, Peer, Server};
use bowline_proto::wire::object::Edit;
use serde_json::{Map, Value};

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::{Printer, STRONG, escape};
use crate::session;
use crate::settings::Settings;

pub(super) async fn run(args: ServerArgs, settings: &Settings) -> Outcome {
    let (_, server) = settings.resolve_server_args("info", args)?;
    let printer = &settings.printer;
    let (peer, transport) = session::with_client(settings, &server, async |client| {
        Ok((client.peer().await?, client.transport()))
    })
    .await?;
    if printer.is_json() {
        printer.write_json(info_json(&server, transport, &peer).as_str())?;
    } else {
        printer.write_layout(&info_text(printer, &server, transport, &peer))?;
    }
    Ok(Exit::Ok)
}

/// Formats the server's information as JSON, with the server's own values unchanged.
fn info_json(server: &Server, transport: &str, peer: &Peer) -> Json {
    let null = Json::parse("null").expect("`null` is JSON");
    let who = peer.server.as_ref().map_or(&null, |server| &server.json);
    let instructions = Json::encode(&peer.instructions).expect("text is JSON");
    Edit::new()
        .set_str("name", &server.name)
        .set_str("transport", transport)
        .set_str("revision", peer.revision.as_str())
        .set_str("era", era_name(peer))
        .set("server", who)
        .set("capabilities", &peer.capabilities.json)
        .set("instructions", &instructions)
        .apply(None)
        .expect("a new object can be written to")
}

fn info_text(printer: &Printer, server: &Server, transport: &str, peer: &Peer) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: &str| {
        let label = printer.paint(STRONG, &format!("{label:<13}"));
        let text = escape::text(text);
        write!(out, "{label}").expect("writing to a string");
        for (index, line) in text.trim_end().split('\n').enumerate() {
            let indent = if index == 0 || line.is_empty() { 0 } else { 13 };
            writeln!(out, "{:indent$}{line}", "").expect("writing to a string");
        }
    };
    line("name", &server.name);
    let who = peer.server.as_ref().map_or_else(
        || "does not say".to_owned(),
        |server| {
            let title = server.title().map(|title| format!(" ({title})")).unwrap_or_default();
            format!("{} {}{title}", server.name, server.version)
        },
    );
    line("server", &who);
    line("transport", transport);
    line("protocol", &format!("{} ({})", peer.revision.as_str(), era_name(peer)));
    line("offers", &format_capabilities(&peer.capabilities.json));
    if let Some(website) = peer.server.as_ref().and_then(bowline::types::Implementation::website_url) {
        line("website", &website);
    }
    if let Some(instructions) = &peer.instructions {
        line("instructions", instructions);
    }
    let about = peer.server.as_ref().and_then(|server| server.json.decode::<Value>().ok());
    if about.is_some_and(|about| escape::value_has_hidden_text(&about))
        || peer.instructions.as_deref().is_some_and(escape::has_hidden_text)
    {
        line("careful", "this contains invisible characters: a model reads them, and you do not see them");
    }
    out
}

/// Lists the capabilities by name, each with what is enabled inside it.
fn format_capabilities(capabilities: &Json) -> String {
    let all: Map<String, Value> = capabilities.decode().unwrap_or_default();
    let named = all.iter().filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(false)));
    let named = named.map(|(name, value)| {
        let on = |(key, value): (&String, &Value)| (*value != Value::Bool(false)).then(|| key.clone());
        let inside: Vec<String> = value.as_object().into_iter().flatten().filter_map(on).collect();
        if inside.is_empty() { name.clone() } else { format!("{name} ({})", inside.join(", ")) }
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { "nothing".to_owned() } else { named.join(", ") }
}

fn era_name(peer: &Peer) -> &'static str {
    match peer.era() {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_in_a_line() {
        let of = |text: &'static str| format_capabilities(&Json::parse(text).unwrap());
        assert_eq!(of("{}"), "nothing");
        assert_eq!(
            of(r#"{"tools":{"listChanged":true},"resources":{"subscribe":false},"logging":null}"#),
            "resources, tools (listChanged)"
        );
    }
}
