//! Examines one server: makes the checks in order, and stops where a later one could not tell more.

use std::time::{Duration, Instant};

use bowline::config::Transport;
use bowline::{Client, ErrorKind, Server};
use bowline_transport::http::{Proxies, ServerProbe};
use tokio::time::timeout;

use super::check::{Blame, CheckLog, Finding};
use super::subject::Subject;
use super::{authorization, clock, connection, fault, fixed_setting, network, program, tls};
use crate::exit::Exit;
use crate::session::client_builder;
use crate::settings::Settings;

/// How long all checks of a server may take together, beyond what its entry allows for connecting.
const EXTRA_TIME: Duration = Duration::from_secs(90);

/// Makes all checks of a server.
///
/// Dropping the future closes what was opened, in the background.
pub(super) async fn examine(settings: &Settings, subject: &Subject<'_>, log: &CheckLog) {
    let limit = subject.server.timeouts.connect + EXTRA_TIME;
    if timeout(limit, examine_steps(settings, subject, log)).await.is_err() {
        let seen = format!("the checks were given up after {} s", limit.as_secs());
        let finding = Finding::failed(Blame::Server, Exit::Timeout, seen);
        let finding =
            finding.fix("the server is too slow to be examined: see its log").run(subject.log_command());
        log.add_timed("total", limit, finding);
    }
}

async fn examine_steps(settings: &Settings, subject: &Subject<'_>, log: &CheckLog) {
    let mut proxy = None;
    let is_reachable = match &subject.server.transport {
        Transport::Stdio(program) => program::check(program, subject, log).await,
        Transport::Http(http) | Transport::Sse(http) => match ServerProbe::new(http, Proxies::System) {
            Ok(probe) => {
                proxy = network::proxy_address(&probe);
                let subject = Subject { proxy: proxy.as_deref(), ..*subject };
                let unusable = network::unusable_proxy_variable(http, |name| settings.env.var(name));
                network::check(&probe, unusable, &subject, log).await
                    && tls::check(&probe, &subject, log).await
            }
            Err(fault) => log.add("proxy", Instant::now(), fault::of_fault(&fault, subject)),
        },
        _ => true,
    };
    if is_reachable {
        connect(settings, &Subject { proxy: proxy.as_deref(), ..*subject }, log).await;
    } else {
        log.skip(&["connection"], SKIPPED);
        log.skip(&connection::NAMES, SKIPPED);
    }
}

const SKIPPED: &str = "an earlier check failed";

async fn connect(settings: &Settings, subject: &Subject<'_>, log: &CheckLog) {
    let begun = Instant::now();
    let client = match open_client(subject.server.clone(), settings, subject) {
        Ok(client) => client,
        Err(error) => {
            log.add("connection", begun, fault::of_error(&error, subject));
            log.skip(&connection::NAMES, SKIPPED);
            return;
        }
    };
    let is_ready = check_connection(&client, begun, settings, subject, log).await;
    if let Some(http) = subject.server.transport.http().filter(|http| http.socket.is_none()) {
        clock::check(http, log).await;
    }
    connection::close(&client, is_ready, subject, log).await;
}

/// Opens a client for the server that is examined, or for that server with other settings.
pub(super) fn open_client(
    server: Server,
    settings: &Settings,
    subject: &Subject<'_>,
) -> bowline::Result<Client> {
    // Other commands end what an earlier bowline left behind; here it is only reported.
    let server = connection::with_request_limits(server);
    let builder = client_builder(server, &settings.folders(), settings.auth(subject.server));
    // What a server speaks is found out anew.
    builder.without_negotiation_cache().exit_wait(connection::EXIT_WAIT).open()
}

/// Waits for the connection, and makes its checks. Returns whether it was made.
async fn check_connection(
    client: &Client,
    begun: Instant,
    settings: &Settings,
    subject: &Subject<'_>,
    log: &CheckLog,
) -> bool {
    let ready = client.ready().await;
    let took = begun.elapsed();
    let error = match ready {
        Ok(peer) => {
            if !subject.is_process() {
                authorization::check(client.identity(), None, subject, log).await;
            }
            log.add_timed("connection", took, Finding::ok(format!("ready over {}", client.transport())));
            connection::check(client, &peer, subject, log).await;
            return true;
        }
        Err(error) => error,
    };
    let requires_tls = match error.kind() {
        ErrorKind::Fault(fault) => tls::is_required(fault, subject).await,
        _ => false,
    };
    match error.kind() {
        ErrorKind::Fault(fault) if authorization::is_about_login(fault) => {
            authorization::check(client.identity(), Some(fault), subject, log).await;
            log.skip(&["connection"], "it needs the login");
        }
        _ if requires_tls => drop(log.add_timed("connection", took, tls::required_finding(subject))),
        _ => {
            let failure = fault::of_error(&error, subject);
            let by_setting = fixed_setting::find_fault(&failure, settings, subject).await;
            log.add_timed("connection", took, by_setting.unwrap_or(failure));
        }
    }
    log.skip(&connection::NAMES, SKIPPED);
    false
}
