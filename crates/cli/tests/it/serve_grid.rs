//! The grid: hosts of five revisions, servers of six kinds, every feature, each used before and after
//! a fault. The hosts do nothing by themselves, so what holds here is held by `bowline serve`.

mod feature;
pub(crate) mod host;
mod http;
mod upstream;

use feature::Feature;
use host::{GridHost, Revision};
use upstream::{Kind, Upstream};

use crate::context::Context;
use crate::serve::Gateway;

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

/// `bowline serve` in front of some servers.
struct Site {
    context: Context,
    gateway: Gateway,
    address: String,
}

impl Site {
    async fn start(upstreams: &[Upstream]) -> Self {
        let context = Context::new();
        let entries: Vec<String> = upstreams.iter().map(Upstream::entry).collect();
        context.user_config(&entries.concat());
        let (gateway, address) = start(&context, "127.0.0.1:0").await;
        Self { context, gateway, address }
    }

    async fn restart(self) -> Self {
        let Self { context, gateway, address } = self;
        gateway.kill().await;
        let (gateway, address) = start(&context, &address).await;
        Self { context, gateway, address }
    }
}

async fn start(context: &Context, address: &str) -> (Gateway, String) {
    let mut gateway = Gateway::start(context, &["--listen", address, "--no-token"]);
    let url = gateway.url().await;
    gateway.note().await;
    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
    (gateway, address.to_owned())
}

/// Every feature of a revision at each of these servers, which are behind the same `bowline serve`.
async fn check(revision: Revision, kinds: &[Kind], fault: Fault) {
    let mut upstreams = Vec::new();
    for kind in kinds {
        upstreams.push(Upstream::start(*kind, kinds.len() == 1).await);
    }
    let mut site = Site::start(&upstreams).await;
    let mut host = GridHost::connect(&site.address, revision).await;
    for upstream in &upstreams {
        let features = Feature::ALL.into_iter().filter(|feature| feature.is_in(revision));
        for (at, feature) in features.enumerate() {
            eprintln!("{revision:?}, {:?}, {feature:?}, {fault:?}", upstream.kind);
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
                Fault::ServerRestarted => upstream.restart().await,
                // Seldom enough for a busy machine, and over all kinds of servers at every feature.
                Fault::GatewayRestarted if !(at + kind_index(upstream.kind)).is_multiple_of(3) => {}
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
    assert_eq!(site.gateway.terminate().await.code(), Some(0));
}

fn kind_index(kind: Kind) -> usize {
    Kind::ALL.iter().position(|other| *other == kind).expect("one of them")
}

/// One test for each kind of server.
macro_rules! grid {
    ($($module:ident: $revision:ident, $fault:ident;)*) => {$(
        mod $module {
            use super::{Fault, Kind, Revision, check};

            grid! {
                @ $revision, $fault;
                stdio_legacy: StdioLegacy;
                stdio_modern: StdioModern;
                sse: Sse;
                http_legacy: HttpLegacy;
                http_without_sessions: HttpWithoutSessions;
                http_modern: HttpModern;
            }
        }
    )*};
    (@ $revision:ident, $fault:ident; $($name:ident: $kind:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            check(Revision::$revision, &[Kind::$kind], Fault::$fault).await;
        }
    )*};
}

grid! {
    hosts_of_2024_11_05_get_every_feature: V2024_11_05, Nothing;
    hosts_of_2025_03_26_get_every_feature: V2025_03_26, Nothing;
    hosts_of_2025_06_18_get_every_feature: V2025_06_18, Nothing;
    hosts_of_2025_11_25_get_every_feature: V2025_11_25, Nothing;
    hosts_of_2026_07_28_get_every_feature: V2026_07_28, Nothing;
    hosts_of_2024_11_05_do_not_notice_lost_sessions: V2024_11_05, SessionLost;
    hosts_of_2025_03_26_do_not_notice_lost_sessions: V2025_03_26, SessionLost;
    hosts_of_2025_06_18_do_not_notice_lost_sessions: V2025_06_18, SessionLost;
    hosts_of_2025_11_25_do_not_notice_lost_sessions: V2025_11_25, SessionLost;
    hosts_of_2026_07_28_do_not_notice_lost_sessions: V2026_07_28, SessionLost;
    hosts_of_2024_11_05_do_not_notice_restarted_servers: V2024_11_05, ServerRestarted;
    hosts_of_2025_03_26_do_not_notice_restarted_servers: V2025_03_26, ServerRestarted;
    hosts_of_2025_06_18_do_not_notice_restarted_servers: V2025_06_18, ServerRestarted;
    hosts_of_2025_11_25_do_not_notice_restarted_servers: V2025_11_25, ServerRestarted;
    hosts_of_2026_07_28_do_not_notice_restarted_servers: V2026_07_28, ServerRestarted;
    hosts_of_2024_11_05_come_back_after_a_kill_of_the_gateway: V2024_11_05, GatewayRestarted;
    hosts_of_2025_03_26_do_not_notice_a_kill_of_the_gateway: V2025_03_26, GatewayRestarted;
    hosts_of_2025_06_18_do_not_notice_a_kill_of_the_gateway: V2025_06_18, GatewayRestarted;
    hosts_of_2025_11_25_do_not_notice_a_kill_of_the_gateway: V2025_11_25, GatewayRestarted;
    hosts_of_2026_07_28_do_not_notice_a_kill_of_the_gateway: V2026_07_28, GatewayRestarted;
}

/// All kinds of servers behind one endpoint, whose tools have the same names.
#[tokio::test]
async fn servers_of_all_kinds_at_once_in_front_of_sessions() {
    check(Revision::V2025_11_25, &Kind::ALL, Fault::GatewayRestarted).await;
}

#[tokio::test]
async fn servers_of_all_kinds_at_once_in_front_of_hosts_without_sessions() {
    check(Revision::V2026_07_28, &Kind::ALL, Fault::GatewayRestarted).await;
}
