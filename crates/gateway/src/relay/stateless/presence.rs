//! Shows the gateway that the host is there, also while the host requests nothing, and notices at once
//! when the gateway has ended.

use bowline::Json;
use bowline::types::method;
use bowline_server::StatelessRequest;
use tokio_util::task::AbortOnDropHandle;

use super::exchange::{Exchange, Received, RequestBody};
use super::{RetryWaits, StatelessRelay};

impl StatelessRelay {
    /// Keeps a subscription to nothing open from the first request of the host on. Without it the gateway
    /// would end when the host is silent for long, and the connections to servers would be closed.
    pub(super) fn show_presence(&self, request: &StatelessRequest) {
        let mut presence = self.0.presence.lock();
        if presence.is_some() {
            return;
        }
        let nothing = Json::empty_object();
        let body =
            RequestBody::own(method::LISTEN, request.params.as_ref(), Some(("notifications", &nothing)));
        // Weak, or the relay would never be dropped.
        let relay = std::sync::Arc::downgrade(&self.0);
        let task = tokio::spawn(async move {
            let mut waits = RetryWaits::new(None);
            while let Some(shared) = relay.upgrade() {
                let relay = Self(shared);
                if let Ok(mut reader) = relay.send(&body).await {
                    waits = RetryWaits::new(None);
                    while let Received::Notification { .. } = reader.next().await {}
                    relay.report(&Exchange::Lost);
                }
                drop(relay);
                waits.wait().await;
            }
        });
        *presence = Some(AbortOnDropHandle::new(task));
    }
}
