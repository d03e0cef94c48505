//! Which clients are told that something changed.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::request_outcome::notification;

/// The streams on which notifications are sent, and those that wait for one.
#[derive(Default)]
pub(crate) struct Listeners {
    open: Vec<Listener>,
    /// Changes that no stream wanted yet. A real server loses them; here a test need not wait until
    /// the client listens.
    waiting: Vec<Change>,
}

/// Where a stream takes its messages from. It ends with the server.
pub(crate) type Notifications = mpsc::UnboundedReceiver<Value>;

struct Listener {
    audience: Audience,
    outlet: mpsc::UnboundedSender<Value>,
}

/// Who receives the messages of a stream.
pub(crate) enum Audience {
    /// The client of the legacy session with this id.
    Session(String),
    /// The modern subscription with this id and granted filter.
    Subscription { id: Value, filter: Value },
}

/// Something that changed.
pub(crate) struct Change {
    pub(crate) method: &'static str,
    /// The member of a subscription's filter that asks for it.
    pub(crate) flag: &'static str,
    /// The resource that changed, for those who subscribed to it.
    pub(crate) uri: Option<String>,
    /// The id of the only legacy session that is told; `None` tells all.
    pub(crate) session: Option<String>,
}

impl Listeners {
    /// Opens a stream.
    pub(crate) fn listen(&mut self, audience: Audience) -> Notifications {
        let (outlet, notifications) = mpsc::unbounded_channel();
        let listener = Listener { audience, outlet };
        self.waiting.retain(|change| !listener.tell(change));
        self.open.push(listener);
        notifications
    }

    /// Tells everybody who wants to know. If nobody does and it is to be kept, the next listener who
    /// wants to know is told.
    pub(crate) fn announce(&mut self, change: Change, keep: bool) {
        self.open.retain(|listener| !listener.outlet.is_closed());
        let told = self.open.iter().filter(|listener| listener.tell(&change)).count();
        if told == 0 && keep {
            self.waiting.push(change);
        }
    }

    /// Discards the changes that wait and that nobody is to be told any more.
    pub(crate) fn discard(&mut self, is_unwanted: impl Fn(&Change) -> bool) {
        self.waiting.retain(|change| !is_unwanted(change));
    }

    /// Ends all streams.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Listener {
    /// Sends a notification if it is wanted here. Returns whether it was.
    fn tell(&self, change: &Change) -> bool {
        let mut params = json!({});
        if let Some(uri) = &change.uri {
            params["uri"] = uri.as_str().into();
        }
        match &self.audience {
            Audience::Session(id) => {
                if change.session.as_ref().is_some_and(|session| session != id) {
                    return false;
                }
            }
            Audience::Subscription { id, filter } => {
                let wanted = match (&filter[change.flag], &change.uri) {
                    (Value::Array(uris), Some(uri)) => uris.iter().any(|wanted| wanted == uri),
                    (flag, _) => *flag == true,
                };
                if !wanted {
                    return false;
                }
                params["_meta"][SUBSCRIPTION_KEY] = id.clone();
            }
        }
        self.outlet.send(notification(change.method, params)).is_ok()
    }
}

pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
