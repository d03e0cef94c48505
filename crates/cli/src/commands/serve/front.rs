//! Serves a host on stdin and stdout by relaying it to the daemon that all hosts of this
//! configuration share. The session of the host outlives the daemon, which is started again.

use std::sync::Arc;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{ConnectionEvent, ConnectionEventKind, Server};
use bowline_gateway::{Host, Relay};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::daemon::{Daemon, StartFailure, StartOutcome};
use super::daemon_key::{self, DaemonKey};
use super::daemon_pulse::DaemonPulse;
use super::views::ViewMap;
use crate::args::ServeArgs;
use crate::commands::serving::{LoginCommands, Serving, run_in_task};
use crate::print::{Printer, stderr};
use crate::settings::Settings;

/// Whether the host was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontOutcome {
    Served,
    /// There is no daemon. Nothing of the host was read.
    NoDaemon,
}

/// Serves the host until it leaves.
pub(super) async fn run(
    args: &ServeArgs,
    settings: &Settings,
    (servers, views): (&[Server], &ViewMap),
) -> FrontOutcome {
    let printer = &settings.printer;
    // A host may never read stderr, so writing to it must not block.
    stderr::detach();
    let key = DaemonKey::new(args, settings, (servers, views));
    if settings.passed_gateways().contains(&daemon_key::fingerprint(servers, views)) {
        // It was started by a gateway of the same configuration, which would start it again and again. The gateway
        // of this process refuses the host, and says why.
        return FrontOutcome::NoDaemon;
    }
    let located = Daemon::locate(args, settings, key)
        .and_then(|daemon| Ok((relayed_server(&daemon, servers, args.view.as_deref())?, Arc::new(daemon))));
    let (server, daemon) = match located {
        Ok(located) => located,
        Err(reason) => {
            printer.note(&format!("no daemon can be shared, so this process serves alone: {reason}"));
            return FrontOutcome::NoDaemon;
        }
    };
    let (supervisor, first) = Supervisor::spawn(Arc::clone(&daemon));
    let first = timeout(FIRST_START_WAIT, first).await.ok().and_then(Result::ok);
    match first.unwrap_or(Ok(StartOutcome::Pending)) {
        Ok(StartOutcome::WasRunning) if !daemon.has_same_configuration() => {
            printer.note(
                "the daemon was started before the configuration was changed back, so this process serves alone",
            );
            return FrontOutcome::NoDaemon;
        }
        Ok(StartOutcome::Started) => {
            printer
                .note(&format!("started a daemon, which hosts share; its log is {}", daemon.log().display()));
        }
        Ok(StartOutcome::WasRunning | StartOutcome::Pending) => {}
        Err(StartFailure { reason }) => {
            printer.note(&format!("the daemon did not start, so this process serves alone: {reason}"));
            return FrontOutcome::NoDaemon;
        }
    }
    let pulse = Arc::new(DaemonPulse::new(daemon.socket()));
    let relay = Relay::new(server)
        .via(settings.passed_gateways())
        .without_reconnect_setting()
        .with_hang_check(move || Arc::clone(&pulse).is_hung());
    serve(relay, supervisor, printer).await;
    FrontOutcome::Served
}

async fn serve(relay: Relay, mut supervisor: Supervisor, printer: &Printer) {
    let serving = Serving::new(printer);
    let note = serving.event_callback();
    let [is_connected, is_reached] = [(); 2].map(|()| supervisor.is_connected.clone());
    let relay = relay
        .with_initialize_timeout(INITIALIZE_TIMEOUT)
        .with_resume_wait(RESUME_WAIT)
        .relay_stateless_requests(move |reached| {
            is_reached.send_replace(reached);
        })
        .on_connection_event(move |event| {
            record_event(&is_connected, event);
            note(event);
        });
    let run = |stop| async move {
        let relaying = run_in_task(relay.run(Host::stdio(), stop));
        tokio::pin!(relaying);
        let mut last_reason = String::new();
        loop {
            tokio::select! {
                () = &mut relaying => return,
                Some(StartFailure { reason }) = supervisor.failures.recv() => if reason != last_reason {
                    printer.note(&format!("the daemon did not start: {reason}"));
                    last_reason = reason;
                },
            }
        }
    };
    serving.drive(LoginCommands::default(), run).await;
}

/// The daemon, as a server of the relay. All views have the same daemon.
fn relayed_server(daemon: &Daemon, servers: &[Server], view: Option<&str>) -> Result<Server, String> {
    let longest = servers.iter().map(|server| server.timeouts.total).max().unwrap_or_default();
    let path = view.map(|view| format!("/{view}")).unwrap_or_default();
    Server::http("bowline serve", format!("http://localhost/mcp{path}"))
        .socket(daemon.socket())
        .without_fallback()
        .protocol(Protocol::Legacy)
        // The daemon knows the limits of each server, and ends a call before this does.
        .timeout(longest + CALL_TIMEOUT_MARGIN)
        .reconnect_wait(RECONNECT_WAIT)
        .build()
        .map_err(|error| error.to_string())
}

fn record_event(is_connected: &watch::Sender<bool>, event: &ConnectionEvent) {
    match event.kind {
        ConnectionEventKind::Connected | ConnectionEventKind::Recovered => is_connected.send_replace(true),
        ConnectionEventKind::Disconnected | ConnectionEventKind::Failed => is_connected.send_replace(false),
        _ => return,
    };
}

/// Starts the daemon when nobody listens on its socket. Ends when it is dropped.
struct Supervisor {
    /// Whether the relay is connected to the daemon. It counts as connected until it reports
    /// otherwise: the relay connects at the first request of the host.
    is_connected: watch::Sender<bool>,
    failures: mpsc::Receiver<StartFailure>,
    _task: AbortOnDropHandle<()>,
}

impl Supervisor {
    /// Ensures that the daemon runs, from now on. The other result is the outcome of the first time.
    fn spawn(daemon: Arc<Daemon>) -> (Self, oneshot::Receiver<Result<StartOutcome, StartFailure>>) {
        let (report_first, first) = oneshot::channel();
        let (reporter, failures) = mpsc::channel(1);
        let (is_connected, status) = watch::channel(true);
        let task = tokio::spawn(async move {
            let outcome = daemon.ensure_running().await;
            let has_failed = outcome.is_err();
            let _ = report_first.send(outcome);
            if !has_failed {
                supervise(&daemon, status, &reporter).await;
            }
        });
        (Self { is_connected, failures, _task: AbortOnDropHandle::new(task) }, first)
    }
}

/// Starts the daemon again whenever the connection to it is lost and nobody listens.
async fn supervise(
    daemon: &Daemon,
    mut is_connected: watch::Receiver<bool>,
    failures: &mpsc::Sender<StartFailure>,
) {
    let mut wait = MIN_RESTART_WAIT;
    loop {
        if *is_connected.borrow_and_update() {
            wait = MIN_RESTART_WAIT;
            // An event is missed if the host reads too slowly, so the socket is checked as well.
            if let Ok(Err(_)) = timeout(CHECK_INTERVAL, is_connected.wait_for(|connected| !connected)).await {
                return;
            }
        }
        if let Err(failure) = daemon.ensure_running().await {
            // One that was not printed yet says the same.
            let _ = failures.try_send(failure);
        }
        if let Ok(Err(_)) = timeout(wait, is_connected.wait_for(|connected| *connected)).await {
            return;
        }
        wait = (2 * wait).min(MAX_RESTART_WAIT);
    }
}

/// How long the host waits for the daemon before it is served without it. Hosts wait 5 s for a
/// response to `initialize`, or longer, and the relay has its share of that.
const FIRST_START_WAIT: Duration = Duration::from_secs(2);
/// How long the host waits after that for a response to `initialize`.
const INITIALIZE_TIMEOUT: Duration = Duration::from_millis(2500);
/// Added to the longest time limit of a call to a server.
const CALL_TIMEOUT_MARGIN: Duration = Duration::from_secs(60);
/// How long a call waits for a daemon that is started again. A start that takes longer than
/// [`START_TIMEOUT`](super::daemon::START_TIMEOUT) counts as failed.
const RECONNECT_WAIT: Duration = Duration::from_secs(15);
/// How long the response to an open call is waited for before that, if the daemon does not start. A host
/// is answered within the sum of both.
const RESUME_WAIT: Duration = Duration::from_secs(10);
/// How often the socket is checked while the relay reports no loss.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// How long to wait between two attempts to start the daemon, at first and at most.
const MIN_RESTART_WAIT: Duration = Duration::from_millis(100);
const MAX_RESTART_WAIT: Duration = Duration::from_secs(5);
