//! Implements `bowline serve`: one MCP server for hosts, in front of many servers that may fail.

#[cfg(unix)]
mod activation;
mod configured;
#[cfg(unix)]
mod daemon;
#[cfg(unix)]
mod daemon_key;
#[cfg(unix)]
mod daemon_pulse;
#[cfg(unix)]
mod detached;
#[cfg(unix)]
mod front;
#[cfg(not(unix))]
#[path = "serve/front_absent.rs"]
mod front;
mod limits;
mod listen;
mod oauth;
mod reload;
mod unit;
mod views;

use std::sync::Arc;
use std::time::Duration;

use bowline_gateway::{FolderCatalog, Gateway, GatewayBuilder, Host, IdleWatch, Naming, TaskKey};

use super::serving::{LoginCommands, Serving, refuse_trust_for_one_run, run_in_task};
use crate::args::ServeArgs;
use crate::exit::Exit;
#[cfg(unix)]
use crate::failure::Failure;
use crate::failure::Outcome;
use crate::print::stderr;
use crate::process_pool::ProcessPool;
use crate::serve_task_key;
use crate::server_auth::can_log_in;
use crate::session;
use crate::settings::Settings;
use crate::suggested_command::with_scopes;
#[cfg(unix)]
pub(super) use daemon::find_daemons;
#[cfg(unix)]
pub(super) use daemon_pulse::DaemonPulse;
use front::FrontOutcome;
use reload::{ConfigWatch, ReadConfig, ReloadTargets, Reloader};
use unit::ServiceState;
use views::ViewMap;

pub(super) async fn run(args: ServeArgs, settings: &Settings) -> Outcome {
    refuse_trust_for_one_run(settings.project_trust, "serve")?;
    let printer = &settings.printer;
    let watch = ConfigWatch::new(settings);
    let config = ReadConfig::read(&args, settings)?;
    config.left_out_notes(None).iter().for_each(|note| printer.note(note));
    let served = (&config.servers[..], &config.views);
    let limits = configured::read(settings)?.limits;
    if let Some(view) = &args.view {
        views::check_selected(view, &config.views, settings)?;
    }
    if let Some(kind) = args.print_unit {
        return unit::print_command(kind, &args.listen, settings);
    }
    if args.stdio && !args.alone && front::run(&args, settings, served).await == FrontOutcome::Served {
        stderr::drain();
        return Ok(Exit::Ok);
    }
    #[cfg(unix)]
    if args.listen.detached.is_some() {
        detached::leave_terminal();
    }
    #[cfg(unix)]
    keep_running_at_the_file_size_limit();
    // From here on a signal ends it in order, so that whoever reads that it serves may send one.
    let mut serving = Serving::new(printer);
    let hangups = serving.take_hangups();
    // Before anybody is told that it serves.
    let pool = open_pool(settings, &config.servers);
    let listener = if args.stdio { None } else { Some(listen::open(&args.listen, settings, served).await?) };
    #[cfg(unix)]
    let pid_file = record_daemon(&args, settings, served)?;
    // A host may never read stderr, so writing to it must not block.
    stderr::detach();
    unit::notify(&*settings.env, ServiceState::Ready);
    let task_key = serve_task_key::load(settings).await;
    let gateway = build_gateway(served, &args, settings, (&serving, task_key));
    let logins: LoginCommands = reload::login_commands(settings, served.0).into_iter().collect();
    let mut targets = ReloadTargets::default();
    if let Some(listener) = &listener {
        targets.listener = Some((listener.http.control(), listener.kind));
    }
    let host = listener.is_none().then(|| Host::stdio().with_limits(limits::host_limits(&limits)));
    targets.host_limits = host.as_ref().and_then(Host::limits_control);
    let reloads = Reloader {
        args: &args,
        settings,
        gateway: gateway.clone(),
        logins: logins.clone(),
        hangups,
        watch,
        current: config,
        targets,
        #[cfg(unix)]
        pid_file,
        pool: pool.clone(),
    };
    match listener {
        None => {
            let host = host.expect("without a listener there is a host");
            let host = host.with_via(settings.passed_gateways());
            let host = match &args.view {
                Some(view) => host.with_view(view),
                None => host,
            };
            let (commands, drain) = (pool.as_deref(), args.listen.drain);
            let run = |stop| async move {
                let served = run_in_task(async move { gateway.serve(host, stop).await });
                reloads.run_while(served).await;
                close_pool(commands, drain).await;
            };
            serving.drive(logins, run).await;
        }
        Some(listener) => {
            let (http, drain) = (listener.http, args.listen.drain);
            let environment = &*settings.env;
            let commands = pool.as_deref();
            let idle = wait_until_idle(http.idle_watch(), commands, args.listen.exit_when_idle);
            let run = |stop| async move {
                let stop = async {
                    tokio::select! {
                        () = stop => {}
                        () = idle => {}
                    }
                };
                let stop = async {
                    stop.await;
                    unit::notify(environment, ServiceState::Stopping);
                };
                reloads.run_while(gateway.serve_hosts(http, drain, stop)).await;
                close_pool(commands, drain).await;
            };
            serving.drive(logins, run).await;
        }
    }
    stderr::drain();
    Ok(Exit::Ok)
}

/// Makes a file that has reached the limit of the user (`ulimit -f`) an error where it is written. It
/// would end the process otherwise, and with it the sessions of all hosts.
#[cfg(unix)]
fn keep_running_at_the_file_size_limit() {
    use tokio::signal::unix::{SignalKind, signal};
    // The handler stays when this is dropped.
    if let Err(error) = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())) {
        tracing::debug!(%error, "a limit of the size of files may end the process");
    }
}

/// Resolves when there has been no host and no command for `limit`, or never.
async fn wait_until_idle(hosts: IdleWatch, commands: Option<&ProcessPool>, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    loop {
        hosts.wait_until_idle_for(limit).await;
        match commands {
            Some(commands) if !commands.is_idle_for(limit) => commands.wait_until_idle_for(limit).await,
            _ => return,
        }
    }
}

/// Opens the pool in which commands find the processes of these servers. Without one, they start them.
fn open_pool(settings: &Settings, servers: &[bowline::Server]) -> Option<Arc<ProcessPool>> {
    match ProcessPool::open(settings, servers) {
        Ok(pool) => Some(Arc::new(pool)),
        Err(error) => {
            tracing::debug!(%error, "no process is kept for commands");
            None
        }
    }
}

async fn close_pool(pool: Option<&ProcessPool>, limit: Duration) {
    if let Some(pool) = pool {
        pool.shut_down(limit).await;
    }
}

/// Says which process is the daemon that listens on the socket, if this one is.
#[cfg(unix)]
fn record_daemon(
    args: &ServeArgs,
    settings: &Settings,
    (servers, views): (&[bowline::Server], &ViewMap),
) -> Outcome<Option<detached::PidFile>> {
    let (Some(expected), Some(socket)) = (&args.listen.detached, &args.listen.socket) else {
        return Ok(None);
    };
    let key = daemon_key::DaemonKey::new(args, settings, (servers, views));
    if key.to_string() != *expected {
        settings.printer.note("the configuration has changed since the host that starts this daemon read it");
    }
    let file = detached::PidFile::create(socket, key);
    file.map(Some)
        .map_err(|error| Failure::usage(format!("cannot write beside {}: {error}", socket.display())))
}

fn build_gateway(
    (servers, views): (&[bowline::Server], &ViewMap),
    args: &ServeArgs,
    settings: &Settings,
    (serving, task_key): (&Serving<'_>, Option<TaskKey>),
) -> Gateway {
    let folders = settings.folders();
    session::sweep_orphans(folders.process_records.clone());
    // Nobody is asked to log in: the terminal, if there is one, belongs to the host.
    let auth = settings.track_refreshes(settings.login_settings().lazy_auth());
    let naming = if args.prefix { Naming::Prefixed } else { Naming::PlainIfUnique };
    let catalog = folders.catalog.clone();
    let command_line = settings.command_line.clone();
    let builder = Gateway::builder(servers.iter().cloned())
        .naming(naming)
        .on_connection_event(serving.event_callback())
        .login_command(move |server, scopes| Some(with_scopes(&command_line.login_command(server)?, scopes)))
        .client_builder(move |server| {
            let auth = can_log_in(&server).then(|| auth.clone());
            session::client_builder(server, &folders, auth)
        });
    let builder = task_key.into_iter().fold(builder, GatewayBuilder::task_key);
    #[cfg(unix)]
    let builder = builder.fingerprint(daemon_key::fingerprint(servers, views));
    let builder = views.iter().fold(builder, |builder, (name, view)| builder.view(name, view.clone()));
    match catalog {
        Some(folder) => builder.catalog_cache(FolderCatalog::new(folder)).build(),
        None => builder.build(),
    }
}
