//! Who we are, on one connection: before a request, when one is refused, and when that changes.
//!
//! How a login is had is decided in `bowline_auth`. Here it is asked for, and what it means for calls is done.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bowline_auth::{AuthError, AuthErrorKind, Refusal};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::session::{Attempt, Command, Event};
use bowline_proto::wire::outgoing::Frame;
use bowline_transport::http::Answer;

use super::{Failure, Live, Shared, Wire};

/// Whether a person may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Somebody waits for it.
    Anybody,
    /// Nobody does, or the reason may be another.
    Nobody,
}

impl Shared {
    /// Who we are at the moment. To be read before a request is sent.
    pub(super) fn generation(&self) -> u64 {
        self.auth.as_ref().map_or(0, bowline_auth::Identity::generation)
    }

    /// Whether requests carry something that proves who we are.
    pub(super) fn proves_who(&self, live: &Live) -> bool {
        live.credentials || self.auth.as_ref().is_some_and(bowline_auth::Identity::has_credentials)
    }

    /// Whether a login is had by asking a person: that takes as long as it takes.
    pub(super) fn asks_a_person(&self) -> bool {
        self.auth.as_ref().is_some_and(bowline_auth::Identity::is_interactive)
    }

    /// Sees to it that a request does not go out with a token that has ended.
    pub(super) async fn freshen(&self) -> Result<(), Failure> {
        let Some(auth) = &self.auth else { return Ok(()) };
        let fresh = auth.fresh().await;
        fresh.map_err(|error| Failure::Fault(fault(&error, 401, &[])))
    }

    /// Reads what is remembered of us, and renews it if it has to be. An error only if nothing may be sent: without
    /// the headers that a program makes we would be somebody else.
    pub(super) async fn prepare(&self) -> Result<(), Fault> {
        let Some(auth) = &self.auth else { return Ok(()) };
        let prepared = match auth.load().await {
            Ok(()) => auth.fresh().await,
            Err(error) => Err(error),
        };
        match prepared {
            Err(error) if error.kind == AuthErrorKind::Command => Err(fault(&error, 401, &[])),
            Err(error) => {
                tracing::debug!(server = %self.name, %error, "connecting without a login");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Whether another process has made us somebody else.
    pub(super) async fn is_logged_in_elsewhere(&self) -> bool {
        let Some(auth) = &self.auth else { return false };
        let before = auth.generation();
        Box::pin(auth.load()).await.is_ok() && auth.generation() != before
    }

    /// A request was refused for who we are. `Ok`: it is worth another try.
    pub(super) async fn be_let_in(
        &self,
        refused: &Fault,
        generation: u64,
        operation: &str,
        ask: Ask,
    ) -> Result<(), Fault> {
        let (Some(auth), Cause::LoginRequired { code, challenge }) = (&self.auth, &refused.cause) else {
            return Err(refused.clone());
        };
        let refusal = Refusal {
            status: *code,
            challenge: challenge.clone(),
            generation,
            operation: operation.to_owned(),
            quiet: ask == Ask::Nobody,
        };
        // Rare, and large: kept out of the futures of everybody else.
        Box::pin(auth.answer(&refusal)).await.map_err(|error| {
            let mut fault = fault(&error, *code, challenge);
            fault.evidence.body.clone_from(&refused.evidence.body);
            fault
        })
    }

    /// The same for the opening of a connection. `generation`: when it was begun.
    pub(super) async fn authorize(self: Arc<Self>, attempt: Attempt, refused: Fault, generation: u64) {
        // A person who does nothing is not shown a page because a server thinks that it is time for one.
        let unasked = self.was_live.load(Ordering::Relaxed) && self.waiting.load(Ordering::Relaxed) == 0;
        let ask = if unasked { Ask::Nobody } else { Ask::Anybody };
        let event = match self.be_let_in(&refused, generation, "connect", ask).await {
            Ok(()) => Event::Authorized,
            Err(fault) => Event::Denied(fault),
        };
        self.report(attempt, event);
    }

    /// Keeps our token good, and tells the connection when we are somebody else. Ends when dropped.
    pub(super) async fn attend(self: Arc<Self>) {
        let Some(auth) = self.auth.clone() else { return };
        let mut changes = auth.changes();
        let mut standing = auth.standing();
        let watch = async {
            while changes.changed().await.is_ok() {
                let now = auth.standing();
                if std::mem::replace(&mut standing, now) != now {
                    // CA-03, TL-10: another account, or more rights, may see other things.
                    self.outdate_all();
                    self.look_anew();
                }
                self.command(Command::LoggedIn);
            }
        };
        tokio::join!(auth.keep(), watch);
    }

    /// Looks again at what somebody has asked for, now that we may see more of it, or less.
    fn look_anew(self: &Arc<Self>) {
        if let Some(live) = self.live() {
            let shared = Arc::clone(self);
            self.errands.serve(async move { shared.look(live).await });
        }
    }

    /// Sends what needs no answer: a notification, or our answer to the server.
    pub(super) async fn say(&self, wire: &Wire, frame: &Frame) -> Result<(), Fault> {
        let (post, headers) = match wire {
            Wire::Pipe(writer) => return writer.send(frame).await,
            Wire::Http { link: post, headers } | Wire::EventStream { post, headers } => (post, headers),
        };
        let generation = self.generation();
        let answer = post.post(frame.body(), headers).await?;
        let Some(refused) = denial(&answer) else { return Ok(()) };
        // Whether the server takes it is its own affair, but not that it does not know us.
        self.be_let_in(&refused, generation, "notification", Ask::Nobody).await?;
        post.post(frame.body(), headers).await.map(drop)
    }
}

/// Whether an answer says that it matters who we are, and we are not.
pub(super) fn denial(answer: &Answer) -> Option<Fault> {
    if !matches!(answer.status, 401 | 403) {
        return None;
    }
    Some(answer.refusal()).filter(|fault| matches!(fault.cause, Cause::LoginRequired { .. }))
}

impl Failure {
    /// What was said, if a request was refused for who we are.
    pub(super) fn denial(&self) -> Option<&Fault> {
        match self {
            Self::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => Some(fault),
            Self::Session(judged) => judged.shown.denial(),
            _ => None,
        }
    }
}

/// Why a login could not be had, as the connection sees it.
fn fault(error: &AuthError, code: u16, challenge: &[String]) -> Fault {
    let words = match &error.hint {
        // How to log in is the host's to say.
        Some(hint) if error.kind != AuthErrorKind::LoginNeeded => format!("{}; {hint}", error.what),
        _ => error.what.clone(),
    };
    let cause = match error.kind {
        AuthErrorKind::Unavailable => Cause::LoginUnavailable,
        AuthErrorKind::Store => Cause::Store,
        AuthErrorKind::Command => Cause::HeadersCommand,
        _ => Cause::LoginRequired { code, challenge: challenge.to_vec() },
    };
    Fault::before_sending(cause).note(words)
}
