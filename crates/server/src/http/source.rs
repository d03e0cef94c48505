//! [`HttpSource`]: the messages of one session over HTTP, as its [`Host`](crate::Host) takes them.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::request_body::BodyMemory;
use super::session::HttpSession;
use crate::host::InboundMessage;

/// The receiving end of a session. Dropping it ends the session.
#[derive(Debug)]
pub(crate) struct HttpSource {
    session: Arc<HttpSession>,
    posts: mpsc::Receiver<InboundPost>,
}

/// The messages of one POST, which are handed over together: a connection that breaks loses all of
/// them or none.
#[derive(Debug)]
pub(crate) struct InboundPost {
    pub(crate) messages: Vec<InboundMessage>,
    /// Released when the host takes the messages.
    pub(crate) _memory: BodyMemory,
}

/// How many POSTs of a session may wait until the host is read. Further ones wait with their
/// connection.
pub(crate) const MAX_QUEUED_POSTS: usize = 16;

impl HttpSource {
    pub(crate) fn new(session: Arc<HttpSession>, posts: mpsc::Receiver<InboundPost>) -> Self {
        Self { session, posts }
    }

    pub(crate) fn session(&self) -> &Arc<HttpSession> {
        &self.session
    }

    /// Takes the messages of the next POST. `None` when the session has ended.
    pub(crate) async fn recv(&mut self, inbox: &mut VecDeque<InboundMessage>) -> Option<()> {
        let post = tokio::select! {
            biased;
            () = self.session.ended().cancelled() => None,
            post = self.posts.recv() => post,
        };
        let Some(post) = post else {
            tracing::debug!("the session of the host has ended");
            return None;
        };
        inbox.extend(post.messages);
        Some(())
    }

    pub(crate) async fn wait_for_end(&self) {
        self.session.ended().cancelled().await;
    }
}

impl Drop for HttpSource {
    fn drop(&mut self) {
        self.session.end();
    }
}
