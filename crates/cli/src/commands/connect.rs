//! Implements `bowline connect`: an MCP server on stdin and stdout that relays to a server that may
//! fail.

use bowline::Server;
use bowline::auth::Auth;
use bowline::config::{Environment, Http, Transport};
use bowline_gateway::{FolderCatalog, Host, Relay};

use super::serving::{Serving, refuse_trust_for_one_run};
use crate::args::{ConnectArgs, TransportStrategy};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::{Printer, stderr};
use crate::serve_task_key;
use crate::session;
use crate::settings::positional::PositionalArgs;
use crate::settings::{Settings, StateFolders};
use crate::suggested_command::with_scopes;

pub(super) async fn run(args: ConnectArgs, settings: &Settings) -> Outcome {
    refuse_trust_for_one_run(settings.project_trust, "connect")?;
    let ConnectArgs { mut words, allow_http, transport, reconnect_wait, debug: _, mut target } = args;
    // A host may never read stderr, so writing to it must not block.
    stderr::detach();
    let printer = &settings.printer;
    if target.command.is_empty() && matches!(&*words, [_, port] if port.parse::<u16>().is_ok()) {
        words.pop();
        printer.note("the port is ignored: it is for browser logins, which are not needed here");
    }
    let name = PositionalArgs::new("connect", "", words, &target.command)?.finish()?;
    for header in &mut target.headers {
        *header = expand_variables(header, &*settings.env, printer);
    }
    let mut server = settings.resolve_server(name.as_deref(), target)?;
    if let Some(strategy) = transport {
        server.transport = apply_strategy(server.transport, strategy)?;
    }
    if let Some(wait) = reconnect_wait {
        server = server.with_reconnect_wait(wait);
    }
    if !allow_http {
        refuse_plain_http(&server)?;
    }
    let folders = settings.folders();
    session::sweep_orphans(folders.process_records.clone());
    let auth = settings.auth(&server);
    let login = settings.command_line.login_command(&server);
    let mut relay = Relay::new(server.clone()).via(settings.passed_gateways());
    if let Some(folder) = &folders.catalog {
        relay = relay.catalog_cache(FolderCatalog::new(folder));
    }
    if let Some(key) = serve_task_key::load(settings).await {
        relay = relay.task_key(key);
    }
    serve(relay, server, folders, auth, login, printer).await;
    stderr::drain();
    Ok(Exit::Ok)
}

/// Serves the host until it closes stdin or a signal arrives.
async fn serve(
    relay: Relay,
    server: Server,
    folders: StateFolders,
    auth: Option<Auth>,
    login: Option<String>,
    printer: &Printer,
) {
    let serving = Serving::new(printer);
    let mut relay =
        relay.on_connection_event(serving.event_callback()).on_denied(serving.denial_callback(&server.name));
    if let Some(command) = &login {
        let command = command.clone();
        relay = relay.login_command(move |scopes| with_scopes(&command, scopes));
    }
    if let Some(cache) = folders.negotiation_cache() {
        relay = relay.negotiation_cache(cache);
    }
    if let Some(folder) = folders.process_records {
        relay = relay.records(folder);
    }
    // Nobody is asked to log in: the terminal, if there is one, belongs to the host.
    if let Some(auth) = auth {
        relay = relay.auth(auth);
    }
    let logins = login.into_iter().map(|command| (server.name.clone(), command)).collect();
    serving.drive(logins, |stop| relay.run(Host::stdio(), stop)).await;
}

/// Applies `--transport` to the transport of the server.
fn apply_strategy(transport: Transport, strategy: TransportStrategy) -> Outcome<Transport> {
    let (Transport::Http(mut http) | Transport::Sse(mut http)) = transport else {
        return Err(Failure::usage("--transport is for a server with a URL"));
    };
    // With both transports at one URL, Streamable HTTP recovers better; otherwise the one there is
    // found.
    http.fallback = matches!(strategy, TransportStrategy::HttpFirst | TransportStrategy::SseFirst);
    Ok(if strategy == TransportStrategy::SseOnly { Transport::Sse(http) } else { Transport::Http(http) })
}

/// Refuses plain HTTP to other machines: everybody on the network can read and change it.
fn refuse_plain_http(server: &Server) -> Outcome<()> {
    let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else { return Ok(()) };
    if http.url.scheme() != "http" || is_loopback(http) {
        return Ok(());
    }
    Err(Failure::usage_hint(
        format!("`{}` uses plain http, which anyone on the network can read", server.name),
        "use https, or say --allow-http if the network is trusted",
    ))
}

fn is_loopback(http: &Http) -> bool {
    let Some(host) = http.url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Replaces each `${NAME}` in the header by that variable. An unset variable becomes empty, as in
/// other tools that use this syntax, and is noted.
fn expand_variables(header: &str, env: &dyn Environment, printer: &Printer) -> String {
    let mut out = String::with_capacity(header.len());
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, left)) = after.split_once('}') else { break };
        out.push_str(before);
        match env.var(name) {
            Some(value) => out.push_str(&value),
            None => printer.note(&format!("the variable {name} of a --header is not set")),
        }
        rest = left;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use bowline::config::FixedEnvironment;

    use super::*;
    use crate::args::{Color, Format};

    #[test]
    fn variables_in_headers() {
        let env = FixedEnvironment::default().with_var("TOKEN", "t0p").with_var("A", "${TOKEN}");
        let printer = Printer::new(Format::Text, Color::Never, true, &env);
        for (typed, meant) in [
            ("Authorization: Bearer ${TOKEN}", "Authorization: Bearer t0p"),
            ("X:${TOKEN}-${TOKEN}", "X:t0p-t0p"),
            // Expanded once: a value is not expanded again.
            ("X: ${A}", "X: ${TOKEN}"),
            ("X: ${NONE}.", "X: ."),
            ("X: $TOKEN ${", "X: $TOKEN ${"),
        ] {
            assert_eq!(expand_variables(typed, &env, &printer), meant);
        }
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        for url in [
            "http://localhost:1/",
            "http://127.0.0.2/",
            "http://[::1]:80/",
            "http://a.localhost/",
            "https://h/",
        ] {
            assert!(refuse_plain_http(&Server::http("s", url).build().unwrap()).is_ok(), "{url}");
        }
        for url in
            ["http://h/", "http://10.0.0.1/", "http://localhost.evil.example/", "http://[2001:db8::1]/"]
        {
            assert!(refuse_plain_http(&Server::http("s", url).build().unwrap()).is_err(), "{url}");
        }
        assert!(refuse_plain_http(&Server::stdio("s", "x").build().unwrap()).is_ok());
    }

    #[test]
    fn strategies() {
        let http = || Server::http("s", "https://h/mcp").build().unwrap().transport;
        let is = |strategy| apply_strategy(http(), strategy).ok().unwrap();
        for first in [TransportStrategy::HttpFirst, TransportStrategy::SseFirst] {
            assert!(matches!(is(first), Transport::Http(Http { fallback: true, .. })));
        }
        assert!(matches!(is(TransportStrategy::HttpOnly), Transport::Http(Http { fallback: false, .. })));
        assert!(matches!(is(TransportStrategy::SseOnly), Transport::Sse(_)));
        assert!(
            apply_strategy(Server::stdio("s", "x").build().unwrap().transport, TransportStrategy::HttpOnly)
                .is_err()
        );
    }
}
