//! Runs the connection of a command: connects, does the work, and closes, whatever happens between.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use bowline::auth::Auth;
use bowline::config::{Protocol, Transport};
use bowline::host::Root;
use bowline::{
    Cause, Client, ClientBuilder, Registry, RegistryBuilder, SavedSession, Server, Status, TraceContext,
};

use crate::args::HandlerArgs;
use crate::closing::ClosingConnection;
use crate::dialog::Dialogs;
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interaction;
use crate::interrupt::Interrupt;
use crate::print::progress::Bar;
use crate::process_pool;
use crate::server_auth::can_log_in;
use crate::settings::{Settings, StateFolders};

/// Connects to `server` and runs `work` with the client.
///
/// A signal drops the work, which cancels its call on the server; then the connection is closed in
/// order, and the command ends. A second signal waits only for a refresh of the login, a third one
/// for nothing. The outcome is returned before the connection is closed: [`crate::closing::PendingCloses::wait`]
/// waits for that.
pub(crate) async fn with_client<T>(
    settings: &Settings,
    server: &Server,
    work: impl AsyncFnOnce(&Client) -> bowline::Result<T>,
) -> Outcome<T> {
    with_outcome(settings, server, async |client| {
        work(client).await.map_err(|error| Failure::call(&error, server, &settings.command_line))
    })
    .await
}

/// Like [`with_client`], for work that can fail in its own ways.
pub(crate) async fn with_outcome<T>(
    settings: &Settings,
    server: &Server,
    work: impl AsyncFnOnce(&Client) -> Outcome<T>,
) -> Outcome<T> {
    with_session(settings, server, None, async |client, _| work(client).await).await
}

/// Whether the server's session outlives the command, and who gets the data to resume it.
#[derive(Default)]
pub(crate) struct SessionRetention(RefCell<Option<SessionCallback>>);

/// Gets what is needed to resume a session.
pub(crate) type SessionCallback = Box<dyn FnOnce(SavedSession)>;

impl SessionRetention {
    /// Leaves the session open. `callback` gets what is needed to resume it, if there is a session.
    pub(crate) fn keep(&self, callback: impl FnOnce(SavedSession) + 'static) {
        *self.0.borrow_mut() = Some(Box::new(callback));
    }

    /// Takes the callback, if the session is to be left open.
    pub(crate) fn take(&self) -> Option<SessionCallback> {
        self.0.take()
    }

    /// Closes the session after all: no task needs it any more.
    pub(crate) fn release(&self) {
        *self.0.borrow_mut() = None;
    }
}

/// What work has of its session besides the client.
pub(crate) struct OpenSession {
    /// Whether the session outlives the command.
    pub(crate) retention: SessionRetention,
    /// The person at the terminal, who is asked by one dialog at a time. An interrupt of a dialog ends the work.
    pub(crate) dialogs: Dialogs,
}

/// Like [`with_outcome`], resuming a session of an earlier command or leaving one for a later.
pub(crate) async fn with_session<T>(
    settings: &Settings,
    server: &Server,
    saved: Option<SavedSession>,
    work: impl AsyncFnOnce(&Client, &OpenSession) -> Outcome<T>,
) -> Outcome<T> {
    if let Some(kept) = &settings.kept_sessions
        && kept.takes(settings, server, saved.is_some())
    {
        return kept.run(settings, server, work).await;
    }
    // A server that is started again may need resources that its last process held.
    settings.pending_closes.wait().await;
    let printer = &settings.printer;
    let mut interrupt = Interrupt::listen();
    let dialogs = match &settings.kept_sessions {
        Some(kept) => kept.dialogs.clone(),
        None => Dialogs::open(printer, &*settings.env),
    };
    let prepared = prepare_builder(settings, server, &settings.handler_args, &dialogs).await?;
    let builder = attach_process(settings, server, prepared, &mut interrupt).await?;
    let session = OpenSession { retention: SessionRetention::default(), dialogs };
    let dialogs = &session.dialogs;
    // Only legacy revisions have sessions, so none is resumed where the modern era is requested.
    let builder = match saved.filter(|_| server.protocol != Protocol::Modern) {
        Some(left) => builder.resume(left),
        None => builder,
    };
    let failed = |error| Failure::call(&error, server, &settings.command_line);
    let client = builder.open().map_err(failed)?;
    let connected = wait_until_ready(settings, server, &client, dialogs, &mut interrupt).await;
    let outcome = match connected {
        Ok(()) => tokio::select! {
            outcome = work(&client, &session) => outcome,
            exit = interrupt.next() => {
                printer.note("interrupted");
                Err(Failure::Signal(exit))
            }
            () = dialogs.interrupted() => {
                printer.note("interrupted");
                Err(Failure::Signal(Exit::Interrupted))
            }
        },
        Err(failure) => Err(failure),
    };
    // Pending questions of the server have lost their purpose.
    match &settings.kept_sessions {
        Some(_) => dialogs.dismiss_current().await,
        None => dialogs.dismiss().await,
    }
    let interrupted = matches!(outcome, Err(Failure::Signal(_)));
    let leaving = ClosingConnection { client, interrupt, interrupted, refreshes: settings.refreshes.clone() };
    match session.retention.take() {
        Some(told) => {
            let client = leaving.client.clone();
            let left = async {
                if let Some(session) = client.leave().await {
                    told(session);
                }
            };
            leaving.finish(left).await;
        }
        None => settings.pending_closes.close(leaving),
    }
    outcome
}

/// Connects to a server for several commands. An interrupt ends that.
pub(crate) async fn open_client(
    settings: &Settings,
    server: &Server,
    handler_args: &HandlerArgs,
    dialogs: &Dialogs,
) -> Outcome<Client> {
    settings.pending_closes.wait().await;
    let mut interrupt = Interrupt::listen();
    // Nobody else uses the process, so it does not matter which roots it knows.
    let (builder, _) = prepare_builder(settings, server, handler_args, dialogs).await?;
    let failed = |error| Failure::call(&error, server, &settings.command_line);
    let client = builder.open().map_err(failed)?;
    match wait_until_ready(settings, server, &client, dialogs, &mut interrupt).await {
        Ok(()) => Ok(client),
        Err(failure) => {
            dialogs.dismiss_current().await;
            let refreshes = settings.refreshes.clone();
            settings.pending_closes.close(ClosingConnection {
                client,
                interrupt,
                interrupted: false,
                refreshes,
            });
            Err(failure)
        }
    }
}

/// Returns a builder with the handlers, the login and the trace of a command, and the roots that the server is told.
async fn prepare_builder(
    settings: &Settings,
    server: &Server,
    handler_args: &HandlerArgs,
    dialogs: &Dialogs,
) -> Outcome<(ClientBuilder, Vec<Root>)> {
    let folders = settings.folders();
    let interaction::ServerHandlers { host, login, roots } =
        interaction::build_handlers(settings, server, handler_args, dialogs).await?;
    let auth = settings.auth(server);
    let auth = match login {
        Some(login) => auth.map(|auth| auth.prompt(login)),
        None => auth,
    };
    let builder = with_trace(client_builder(server.clone(), &folders, auth).handler(host), settings);
    if matches!(server.transport, Transport::Stdio(_)) {
        sweep_orphans(folders.process_records);
    }
    // A person waits for the end of the command.
    Ok((builder.exit_wait(EXIT_WAIT), roots))
}

/// Has the client use a process that `bowline serve` keeps running, if there is one for this command. An interrupt ends
/// that.
async fn attach_process(
    settings: &Settings,
    server: &Server,
    (builder, roots): (ClientBuilder, Vec<Root>),
    interrupt: &mut Interrupt,
) -> Outcome<ClientBuilder> {
    // A prompt keeps its own processes between its commands.
    if settings.kept_sessions.is_some() {
        return Ok(builder);
    }
    tokio::select! {
        attachment = process_pool::attach(settings, server, &roots) => Ok(match attachment {
            Some(attachment) => attachment.add_to(builder),
            None => builder,
        }),
        exit = interrupt.next() => Err(Failure::Signal(exit)),
    }
}

async fn wait_until_ready(
    settings: &Settings,
    server: &Server,
    client: &Client,
    dialogs: &Dialogs,
    interrupt: &mut Interrupt,
) -> Outcome<()> {
    let bar = Bar::start(&settings.printer, &format!("connecting to {}", server.name));
    let connected = tokio::select! {
        connected = connect(client, settings) => connected.map_err(|error| Failure::call(&error, server, &settings.command_line)),
        exit = interrupt.next() => Err(Failure::Signal(exit)),
        () = dialogs.interrupted() => Err(Failure::Signal(Exit::Interrupted)),
    };
    bar.finish();
    connected
}

/// Waits until the server is connected. If the process that `bowline serve` keeps is lost with it, the client starts
/// one, which is waited for as well.
async fn connect(client: &Client, settings: &Settings) -> bowline::Result<()> {
    let connected = client.ready().await;
    let is_cut = |error: &bowline::Error| error.fault().is_some_and(|fault| fault.cause == Cause::Cut);
    if !(settings.pool_use.is_attached() && connected.as_ref().is_err_and(is_cut)) {
        return connected.map(drop);
    }
    tracing::debug!(server = client.name(), "the process that was kept running is gone; starting another");
    let mut status = client.status();
    tokio::select! {
        // This makes the next attempt begin soon.
        _ = client.peer() => {}
        _ = status.wait_for(|status| !matches!(status, Status::BackingOff { .. })) => {}
    }
    // The process that is started now ends with this command.
    settings.pool_use.set_attached(false);
    client.ready().await.map(drop)
}

/// How long a server's process may take to end after its input was closed, before it gets SIGTERM.
const EXIT_WAIT: Duration = Duration::from_millis(300);

/// Returns a client builder with the settings of all commands: client info, authentication, the
/// process records that `bowline ps` reads, and the negotiation cache.
pub(crate) fn client_builder(server: Server, folders: &StateFolders, auth: Option<Auth>) -> ClientBuilder {
    let builder = Client::builder(server).client_info("bowline", env!("CARGO_PKG_VERSION"));
    let builder = match auth {
        Some(auth) => builder.auth(auth),
        None => builder,
    };
    let builder = match folders.negotiation_cache() {
        Some(cache) => builder.negotiation_cache(cache),
        None => builder,
    };
    match &folders.process_records {
        Some(folder) => builder.records(folder),
        None => builder,
    }
}

/// Returns a registry builder with the settings of all commands.
pub(crate) fn registry_builder(settings: &Settings) -> RegistryBuilder {
    let folders = settings.folders();
    sweep_orphans(folders.process_records.clone());
    // Nobody is asked to log in: the status shows that a login is needed.
    let auth = settings.track_refreshes(settings.login_settings().lazy_auth());
    Registry::builder().client_builder(move |server| {
        let auth = can_log_in(&server).then(|| auth.clone());
        client_builder(server, &folders, auth)
    })
}

/// Makes the calls part of the trace that the environment names, each as its own span.
// OT-01.
fn with_trace(builder: ClientBuilder, settings: &Settings) -> ClientBuilder {
    let given = |name| env::non_empty_var(&*settings.env, name);
    match given(env::TRACEPARENT).and_then(|parent| TraceContext::parse(&parent)) {
        Some(context) => {
            let context = context.state(&given(env::TRACESTATE).unwrap_or_default());
            builder.trace(move || Some(context.child(fastrand::u64(1..))))
        }
        None => builder,
    }
}

/// Ends orphaned servers of commands that were killed, in the background. Every command that starts
/// servers does this.
pub(crate) fn sweep_orphans(records: Option<PathBuf>) {
    if let Some(folder) = records {
        tokio::spawn(async move {
            match bowline::processes::sweep(&folder).await {
                Ok(ended) => ended.iter().for_each(|orphan| {
                    tracing::warn!(server = %orphan.server, pid = orphan.pid, "ended what an earlier bowline left behind");
                }),
                Err(error) => tracing::debug!(%error, "the records of processes could not be read"),
            }
        });
    }
}
