//! Implements `bowline connect`: an MCP server on stdin and stdout that relays to a server that may
//! fail.

use bowline::auth::{Auth, missing_scopes};
use bowline::config::{Environment, Http, Transport};
use bowline::{Cause, ConnectionEvent, ConnectionEventKind, Fault, Server};
use bowline_gateway::{Host, Relay};
use tokio::sync::{mpsc, oneshot};

use crate::args::{ConnectArgs, TransportStrategy};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::print::{Printer, stderr, units};
use crate::session;
use crate::settings::positional::PositionalArgs;
use crate::settings::{Settings, StateFolders};
use crate::suggested_command::with_scopes;
use bowline_settings::ProjectTrust;

pub(super) async fn run(args: ConnectArgs, settings: &Settings) -> Outcome {
    refuse_trust_for_one_run(settings.project_trust)?;
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
    serve(server, folders, auth, login, printer).await;
    stderr::drain();
    Ok(Exit::Ok)
}

/// Serves the host until it closes stdin or a signal arrives. Either ends the relay in order. The
/// same signal again, as a person sends it, ends it at once. A different signal does not: hosts
/// send SIGINT and right after it SIGTERM.
async fn serve(
    server: Server,
    folders: StateFolders,
    auth: Option<Auth>,
    login: Option<String>,
    printer: &Printer,
) {
    let mut interrupt = Interrupt::listen();
    let name = server.name.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let mut first = None;
    let (teller, mut lives) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    let (denier, mut denials) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    // A note is dropped if the queue is full.
    let mut relay = Relay::new(server)
        .on_connection_event(move |life| {
            let _ = teller.try_send(life.clone());
        })
        .on_denied(move |fault| {
            let _ = denier.try_send(fault.clone());
        });
    if let Some(command) = login.clone() {
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
    let run = relay.run(Host::stdio(), async move {
        let _ = stopped.await;
    });
    tokio::pin!(run);
    let mut news =
        StatusNotes { printer, server: name, is_down: false, login_command: login, last_denial: None };
    loop {
        tokio::select! {
            biased;
            Some(life) = lives.recv() => news.note_event(&life),
            Some(fault) = denials.recv() => news.note_denied_call(&fault),
            () = &mut run => break,
            exit = interrupt.next() => match stop.take() {
                Some(stop) => {
                    first = Some(exit);
                    // The relay may already be ending.
                    let _ = stop.send(());
                }
                None if first == Some(exit) => break,
                None => {}
            },
        }
    }
    while let Ok(life) = lives.try_recv() {
        news.note_event(&life);
    }
    while let Ok(fault) = denials.try_recv() {
        news.note_denied_call(&fault);
    }
    // Signals that arrive from here on are ignored: the relay has already ended.
    interrupt.ignore();
}

/// Capacity of the queues of connection events and denials that wait to be printed.
const EVENT_QUEUE_CAPACITY: usize = 64;

/// Prints notes about the server to stderr, which hosts keep in their logs. Losses that are
/// recovered at once are not noted.
struct StatusNotes<'a> {
    printer: &'a Printer,
    server: String,
    is_down: bool,
    /// Command that logs in, if a login can help.
    login_command: Option<String>,
    /// Last note about a denied call. Hosts retry, and the same note is printed once.
    last_denial: Option<String>,
}

impl StatusNotes<'_> {
    fn note_event(&mut self, life: &ConnectionEvent) {
        let cause = life.cause.as_ref().map(ToString::to_string).unwrap_or_default();
        let name = &life.server;
        match life.kind {
            ConnectionEventKind::Disconnected => {
                self.is_down = true;
                self.printer.note(&format!("`{name}` cannot be reached: {cause}; reconnecting"));
            }
            ConnectionEventKind::Connected | ConnectionEventKind::Recovered if self.is_down => {
                self.is_down = false;
                let after =
                    life.outage.map_or(String::new(), |outage| format!(" after {}", units::time(outage)));
                self.printer.note(&format!("`{name}` is back{after}"));
            }
            ConnectionEventKind::NeedsLogin => {
                let run = life.cause.as_ref().map(|cause| self.login_hint(cause)).unwrap_or_default();
                self.printer.note(&format!("`{name}` requires a login: {cause}{run}"));
            }
            ConnectionEventKind::Failed => self.printer.note(&format!("`{name}` cannot be used: {cause}")),
            _ => {}
        }
    }

    /// Notes a call that was denied although the server is connected.
    fn note_denied_call(&mut self, cause: &Fault) {
        let text =
            format!("`{}` requires another login for a call: {cause}{}", self.server, self.login_hint(cause));
        if self.last_denial.as_ref() != Some(&text) {
            self.printer.note(&text);
            self.last_denial = Some(text);
        }
    }

    /// Returns the login command on a line of its own, or nothing if a login cannot help.
    fn login_hint(&self, cause: &Fault) -> String {
        let scopes = match &cause.cause {
            Cause::LoginRequired { code: 403, challenge } => missing_scopes(challenge),
            _ => None,
        };
        let scopes = scopes.unwrap_or_default();
        self.login_command
            .as_ref()
            .map(|command| format!("\nrun `{}`", with_scopes(command, &scopes)))
            .unwrap_or_default()
    }
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

/// Refuses `--trust-project`: a host starts this command in any project, unseen, so only projects
/// that were reviewed before are used.
fn refuse_trust_for_one_run(trust: ProjectTrust) -> Outcome<()> {
    match trust {
        ProjectTrust::Recorded => Ok(()),
        ProjectTrust::ThisRun => Err(Failure::usage_hint(
            "--trust-project is for one command that you run yourself, and not for `connect`",
            "run `bowline trust` in the project's folder: it asks you once, and again when the file has changed",
        )),
    }
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
