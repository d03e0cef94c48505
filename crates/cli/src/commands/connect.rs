//! Implements `bowline connect`: an MCP server on stdin and stdout that relays to a server that may
//! fail.

use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use bowline::Server;
use bowline::auth::Auth;
use bowline::config::{Environment, ToolPattern, Transport};
use bowline_config::is_loopback;
use bowline_gateway::{FolderCatalog, Host, Relay};

use super::serving::{Serving, refuse_trust_for_one_run, run_in_task};
use crate::args::{ConnectArgs, TargetArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::{Printer, stderr};
use crate::serve_task_key;
use crate::session;
use crate::settings::positional::PositionalArgs;
use crate::settings::url_server::{apply_oauth_args, fill_variables};
use crate::settings::{Settings, StateFolders};
use crate::suggested_command::{quote_words, with_scopes};

pub(super) async fn run(args: ConnectArgs, settings: &Settings) -> Outcome {
    refuse_trust_for_one_run(settings.project_trust, "connect")?;
    let ConnectArgs {
        mut words,
        allow_http,
        ignored_tools,
        header_files,
        keep_alive,
        ping_interval,
        reconnect_wait,
        debug: _,
        oauth,
        unused,
        mut target,
    } = args;
    // A host may never read stderr, so writing to it must not block.
    stderr::detach();
    let printer = &settings.printer;
    let mut port = take_port(&mut words, &target);
    if oauth.client_info.is_none() && port.take().is_some() {
        printer.note("the port is not used: it belongs to a client of --static-oauth-client-info");
    }
    if let Some(note) = unused.note() {
        printer.note(&note);
    }
    for path in &header_files {
        target.headers.extend(read_header_file(path)?);
    }
    let name = PositionalArgs::new("connect", "", words, &target.command)?
        .finish(|name| settings.is_configured(name))?;
    for header in &mut target.headers {
        *header = expand_variables(header, &*settings.env, printer);
    }
    let login_options: Vec<String> = oauth.to_words(port).into_iter().chain(target.url.to_words()).collect();
    let mut server = settings.resolve_server(name.as_deref(), target)?;
    // No browser is redirected to this process.
    server = apply_oauth_args(server, &oauth, None, &*settings.env)?;
    server.exposure.disabled_tools.extend(ignored_tools.into_iter().map(ToolPattern::new));
    if let Some(interval) = ping_interval.or(keep_alive.then_some(KEEP_ALIVE)) {
        server = server.with_keepalive(Some(interval));
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
    let login = login.map(|command| quote_words(command, &login_options));
    if std::io::stdin().is_terminal() {
        note_at_terminal(&server, printer);
    }
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

/// Takes the port after a URL, which is that of a redirect URI.
fn take_port(words: &mut Vec<String>, target: &TargetArgs) -> Option<u16> {
    let port = match &**words {
        [_, port] if target.command.is_empty() => port.parse().ok()?,
        _ => return None,
    };
    words.pop();
    Some(port)
}

/// Tells a person who typed the command what it is for.
fn note_at_terminal(server: &Server, printer: &Printer) {
    let name = &server.name;
    printer.note(&format!(
        "this command is for MCP hosts: it waits for their messages on stdin and relays them to `{name}`. \
         Put it into the configuration of a host, or use `bowline tools` and `bowline call` yourself. Ctrl-C ends it"
    ));
}

/// The interval of `--keep-alive`.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

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
    serving.drive(logins, |stop| run_in_task(relay.run(Host::stdio(), stop))).await;
}

/// Refuses plain HTTP to other machines: everybody on the network can read and change it.
fn refuse_plain_http(server: &Server) -> Outcome<()> {
    let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else { return Ok(()) };
    if http.url.scheme() != "http" || is_loopback(&http.url) {
        return Ok(());
    }
    Err(Failure::usage_hint(
        format!("`{}` uses plain http, which anyone on the network can read", server.name),
        "use https, or say --allow-http if the network is trusted",
    ))
}

/// Replaces each `${NAME}` in the header by that variable. An unset variable becomes empty, as in
/// other tools that use this syntax, and is noted.
fn expand_variables(header: &str, env: &dyn Environment, printer: &Printer) -> String {
    let Ok(filled) = fill_variables::<Infallible>(header, |name| {
        Ok(env.var(name).unwrap_or_else(|| {
            printer.note(&format!("the variable {name} of a --header is not set"));
            String::new()
        }))
    });
    filled
}

/// Reads the headers in a file: one per line, without comments.
fn read_header_file(path: &Path) -> Outcome<Vec<String>> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(ToOwned::to_owned).collect())
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
}
