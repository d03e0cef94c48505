//! When a host is asked for its roots, which decide its view if nothing else does.

use std::sync::Arc;
use std::time::Duration;

use bowline::Json;
use bowline::types::method;
use bowline_server::OpenRequest;
use tokio::time::timeout;

use super::session::HostSession;
use super::upstream::Upstreams;

/// How long a request waits for the roots of its host. Without them it finds nothing.
const ROOTS_WAIT: Duration = Duration::from_secs(10);
/// How long what an earlier process knew of the host waits for its roots.
const RESTORED_ROOTS_WAIT: Duration = Duration::from_secs(60);

impl HostSession {
    /// Asks the host for its roots on the stream of a request, unless they are known. A host over HTTP
    /// may have no other stream open.
    pub(super) async fn find_roots(&self, upstreams: &Upstreams, request: &OpenRequest) {
        let Some(roots) = upstreams.roots().filter(|roots| roots.is_wanted()) else { return };
        if request.is_restored() {
            // Nobody waits for its response, and the host is asked when it sends a request.
            let _ = timeout(RESTORED_ROOTS_WAIT, roots.wait_until_known()).await;
            return;
        }
        if !roots.may_ask() {
            return;
        }
        let nothing = Json::empty_object();
        let ask = async { request.send_request(method::ROOTS_LIST, &nothing).await.ok() };
        if timeout(ROOTS_WAIT, roots.ask(ask)).await.is_err() {
            tracing::warn!("the host did not say in time which roots it has");
            roots.record_silence();
        }
        upstreams.follow_roots();
    }

    /// Asks the host for its roots, which it says are others by now. If it cannot be asked, its next
    /// request does.
    pub(super) fn find_changed_roots(&self, upstreams: &Arc<Upstreams>) {
        let Some(roots) = upstreams.roots() else { return };
        roots.mark_outdated();
        let (link, asking) = (self.link.clone(), Arc::downgrade(upstreams));
        upstreams.spawn(async move {
            let Some(upstreams) = asking.upgrade() else { return };
            let Some(roots) = upstreams.roots() else { return };
            let nothing = Json::empty_object();
            let ask = async { link.send_request(method::ROOTS_LIST, &nothing).await.ok() };
            let _ = timeout(ROOTS_WAIT, roots.ask(ask)).await;
            upstreams.follow_roots();
        });
    }
}
