//! The grid: hosts of five revisions over HTTP, and of the newest on stdio, servers of six kinds, every
//! feature, each used before and after a fault. The hosts do nothing by themselves, so what holds here is held by
//! `bowline serve`, or by `bowline connect` in front of a single server.

mod feature;
pub(crate) mod host;
mod http;
mod pipe;
mod upstream;

use feature::Feature;
use host::{GridHost, Revision};
use pipe::Pipe;
use upstream::{Kind, Upstream};

use crate::connect::host::Host;
use crate::context::Context;
use crate::serve::Gateway;
use crate::serve_front::daemons::Daemons;

/// What happens between two uses of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// The server forgets its sessions.
    SessionLost,
    /// The server ends, and starts again.
    ServerRestarted,
    /// `bowline serve` is killed, and started again.
    GatewayRestarted,
}

/// How a host reaches `bowline serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Http,
    /// It starts `bowline serve --stdio`, which relays it to a daemon.
    Front,
    /// It starts `bowline serve --stdio --alone`.
    Alone,
    /// It starts `bowline connect`.
    Connect,
}

/// `bowline serve` in front of some servers.
struct Site {
    context: Context,
    running: Running,
}

enum Running {
    Http {
        gateway: Box<Gateway>,
        address: String,
    },
    /// The host starts it.
    Pipe(Daemons),
}

impl Site {
    /// Starts `bowline serve`, and a host that reaches it.
    async fn start(upstreams: &[Upstream], revision: Revision, transport: Transport) -> (Self, GridHost) {
        let context = Context::new();
        let entries: Vec<String> = upstreams.iter().map(Upstream::entry).collect();
        context.user_config(&entries.concat());
        let args: &[&str] = match transport {
            Transport::Http => {
                let (gateway, address) = start(&context, "127.0.0.1:0").await;
                let host = GridHost::connect(&address, revision).await;
                return (Self { context, running: Running::Http { gateway, address } }, host);
            }
            Transport::Front => &["serve", "--stdio"],
            Transport::Alone => &["serve", "--stdio", "--alone"],
            Transport::Connect => &["connect", upstreams[0].kind.name()],
        };
        assert_eq!(revision, Revision::V2026_07_28, "the others have a session on a pipe");
        let running = Running::Pipe(Daemons::of(&context));
        let host = GridHost::on_pipe(Pipe::new(Host::start(context.bowline(args))));
        (Self { context, running }, host)
    }

    /// Kills `bowline serve`. A daemon is started again by its front.
    async fn restart(self) -> Self {
        let Self { context, running } = self;
        let running = match running {
            Running::Http { gateway, address } => {
                gateway.kill().await;
                let (gateway, address) = start(&context, &address).await;
                Running::Http { gateway, address }
            }
            Running::Pipe(daemons) => {
                daemons.kill();
                Running::Pipe(daemons)
            }
        };
        Self { context, running }
    }

    /// Ends the host, and `bowline serve`.
    async fn end(self, host: GridHost) {
        if let Some(pipe) = host.into_pipe() {
            assert_eq!(pipe.close().await, Some(0));
        }
        if let Running::Http { gateway, .. } = self.running {
            assert_eq!(gateway.terminate().await.code(), Some(0));
        }
    }
}

async fn start(context: &Context, address: &str) -> (Box<Gateway>, String) {
    let mut gateway = Gateway::start(context, &["--listen", address, "--no-token"]);
    let url = gateway.url().await;
    gateway.note().await;
    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
    (Box::new(gateway), address.to_owned())
}

/// Every feature of a revision at each of these servers, which are behind the same `bowline serve`.
async fn check((revision, transport): (Revision, Transport), kinds: &[Kind], fault: Fault) {
    let mut upstreams = Vec::new();
    for kind in kinds {
        upstreams.push(Upstream::start(*kind, kinds.len() == 1).await);
    }
    let (mut site, mut host) = Site::start(&upstreams, revision, transport).await;
    for upstream in &upstreams {
        let features = Feature::ALL.into_iter().filter(|feature| feature.is_in(revision));
        for (at, feature) in features.enumerate() {
            eprintln!("{revision:?}, {transport:?}, {:?}, {feature:?}, {fault:?}", upstream.kind);
            feature.use_once(&mut host, upstream, true).await;
            let mut has_new_session = false;
            match fault {
                Fault::Nothing => {}
                Fault::SessionLost => {
                    upstream.forget_sessions();
                    // A server says that it has forgotten a session when it is spoken to.
                    if matches!(feature, Feature::Subscription | Feature::ListChanged) {
                        Feature::Call.use_once(&mut host, upstream, false).await;
                    }
                }
                // Seldom enough for a busy machine, and over all kinds of servers and revisions at every
                // feature. The longer a server keeps ending, the later it is started again.
                Fault::ServerRestarted | Fault::GatewayRestarted
                    if !(at + kind_index(upstream.kind) + revision as usize).is_multiple_of(3) => {}
                Fault::ServerRestarted => upstream.restart().await,
                Fault::GatewayRestarted => {
                    site = site.restart().await;
                    host.reconnect().await;
                    has_new_session = revision == Revision::V2024_11_05;
                }
            }
            feature.use_once(&mut host, upstream, has_new_session).await;
        }
    }
    for upstream in &upstreams {
        assert_eq!(upstream.control().violations(), [""; 0], "{:?}", upstream.kind);
    }
    site.end(host).await;
}

fn kind_index(kind: Kind) -> usize {
    Kind::ALL.iter().position(|other| *other == kind).expect("one of them")
}

/// One test for each kind of server.
macro_rules! grid {
    ($($module:ident: $revision:ident, $transport:ident, $fault:ident;)*) => {$(
        mod $module {
            use super::{Fault, Kind, Revision, Transport, check};

            grid! {
                @ $revision, $transport, $fault;
                stdio_legacy: StdioLegacy;
                stdio_modern: StdioModern;
                sse: Sse;
                http_legacy: HttpLegacy;
                http_without_sessions: HttpWithoutSessions;
                http_modern: HttpModern;
            }
        }
    )*};
    (@ $revision:ident, $transport:ident, $fault:ident; $($name:ident: $kind:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            check((Revision::$revision, Transport::$transport), &[Kind::$kind], Fault::$fault).await;
        }
    )*};
}

grid! {
    hosts_of_2024_11_05_get_every_feature: V2024_11_05, Http, Nothing;
    hosts_of_2025_03_26_get_every_feature: V2025_03_26, Http, Nothing;
    hosts_of_2025_06_18_get_every_feature: V2025_06_18, Http, Nothing;
    hosts_of_2025_11_25_get_every_feature: V2025_11_25, Http, Nothing;
    hosts_of_2026_07_28_get_every_feature: V2026_07_28, Http, Nothing;
    hosts_of_2024_11_05_do_not_notice_lost_sessions: V2024_11_05, Http, SessionLost;
    hosts_of_2025_03_26_do_not_notice_lost_sessions: V2025_03_26, Http, SessionLost;
    hosts_of_2025_06_18_do_not_notice_lost_sessions: V2025_06_18, Http, SessionLost;
    hosts_of_2025_11_25_do_not_notice_lost_sessions: V2025_11_25, Http, SessionLost;
    hosts_of_2026_07_28_do_not_notice_lost_sessions: V2026_07_28, Http, SessionLost;
    hosts_of_2024_11_05_do_not_notice_restarted_servers: V2024_11_05, Http, ServerRestarted;
    hosts_of_2025_03_26_do_not_notice_restarted_servers: V2025_03_26, Http, ServerRestarted;
    hosts_of_2025_06_18_do_not_notice_restarted_servers: V2025_06_18, Http, ServerRestarted;
    hosts_of_2025_11_25_do_not_notice_restarted_servers: V2025_11_25, Http, ServerRestarted;
    hosts_of_2026_07_28_do_not_notice_restarted_servers: V2026_07_28, Http, ServerRestarted;
    hosts_of_2024_11_05_come_back_after_a_kill_of_the_gateway: V2024_11_05, Http, GatewayRestarted;
    hosts_of_2025_03_26_do_not_notice_a_kill_of_the_gateway: V2025_03_26, Http, GatewayRestarted;
    hosts_of_2025_06_18_do_not_notice_a_kill_of_the_gateway: V2025_06_18, Http, GatewayRestarted;
    hosts_of_2025_11_25_do_not_notice_a_kill_of_the_gateway: V2025_11_25, Http, GatewayRestarted;
    hosts_of_2026_07_28_do_not_notice_a_kill_of_the_gateway: V2026_07_28, Http, GatewayRestarted;
    hosts_of_2026_07_28_on_stdio_get_every_feature: V2026_07_28, Front, Nothing;
    hosts_of_2026_07_28_on_stdio_do_not_notice_lost_sessions: V2026_07_28, Front, SessionLost;
    hosts_of_2026_07_28_on_stdio_do_not_notice_restarted_servers: V2026_07_28, Front, ServerRestarted;
    hosts_of_2026_07_28_on_stdio_do_not_notice_a_kill_of_the_daemon: V2026_07_28, Front, GatewayRestarted;
    hosts_of_2026_07_28_that_are_alone_get_every_feature: V2026_07_28, Alone, Nothing;
    hosts_of_2026_07_28_that_are_alone_do_not_notice_restarted_servers: V2026_07_28, Alone, ServerRestarted;
    hosts_of_2026_07_28_get_every_feature_through_connect: V2026_07_28, Connect, Nothing;
    hosts_of_2026_07_28_do_not_notice_lost_sessions_behind_connect: V2026_07_28, Connect, SessionLost;
    hosts_of_2026_07_28_do_not_notice_restarted_servers_behind_connect: V2026_07_28, Connect, ServerRestarted;
}

/// All kinds of servers behind one endpoint, whose tools have the same names.
#[tokio::test]
async fn servers_of_all_kinds_at_once_in_front_of_sessions() {
    check((Revision::V2025_11_25, Transport::Http), &Kind::ALL, Fault::GatewayRestarted).await;
}

#[tokio::test]
async fn servers_of_all_kinds_at_once_in_front_of_hosts_without_sessions() {
    check((Revision::V2026_07_28, Transport::Http), &Kind::ALL, Fault::GatewayRestarted).await;
}

#[tokio::test]
async fn servers_of_all_kinds_at_once_in_front_of_hosts_on_stdio() {
    check((Revision::V2026_07_28, Transport::Front), &Kind::ALL, Fault::GatewayRestarted).await;
}
