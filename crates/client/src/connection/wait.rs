//! Waiting for a link: how long, and what is said when there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::session::{Command, Status};

use super::call::FAR;
use super::options::Purpose;
use super::{CallOptions, Failure, Live, Shared};

/// Somebody waits for a link, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// The live link. Waits while the connection is being made, and for `reconnect_wait` if it was lost.
    pub(crate) async fn ready(&self, patience: Duration) -> Result<Arc<Live>, Failure> {
        self.ready_for(patience, &CallOptions::new()).await
    }

    /// The same. What nobody has asked for does not count as waiting: no person is brought to a login for it.
    pub(super) async fn ready_for(
        &self,
        patience: Duration,
        options: &CallOptions,
    ) -> Result<Arc<Live>, Failure> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let mut begun = Instant::now();
        let mut status = self.status();
        let mut looked = false;
        let _waiting = (options.purpose == Purpose::Caller).then(|| Waiting::begin(&self.waiting));
        loop {
            let seen = status.borrow_and_update().clone();
            if let Some(live) = self.live() {
                return Ok(live);
            }
            let (hopeless, down) = {
                let core = self.core();
                (core.session.hopeless(Instant::now()).cloned(), core.session.is_down())
            };
            if let Some(fault) = hopeless {
                if options.purpose != Purpose::Caller
                    || std::mem::replace(&mut looked, true)
                    || !self.may_log_in().await
                {
                    return Err(Failure::Fault(fault.not_executed()));
                }
                self.command(Command::LoggedIn);
            }
            match seen {
                Status::Closed => return Err(Failure::Fault(Fault::before_sending(Cause::Closed))),
                // Somebody waits: that is worth an attempt.
                Status::Idle | Status::BackingOff { .. } | Status::NeedsLogin(_) | Status::Failed(_) => {
                    self.command(Command::Connect);
                }
                Status::Connecting | Status::LoggingIn(_) | Status::Ready(_) => {}
            }
            let wait = if down { patience.min(self.reconnect_wait) } else { patience };
            let (changed, aside) = self.in_time(begun + wait.min(FAR), status.changed()).await;
            begun += aside;
            match changed {
                Some(Ok(())) => {}
                Some(Err(_)) => return Err(Failure::Fault(Fault::before_sending(Cause::Closed))),
                None if *self.status.borrow() == Status::Closed => {}
                None => return Err(Failure::Fault(self.why_not())),
            }
        }
    }

    /// Why there is no link, and when the next attempt comes.
    fn why_not(&self) -> Fault {
        let now = Instant::now();
        match &*self.status.borrow() {
            Status::BackingOff { until, cause } => {
                let wait = until.saturating_duration_since(now);
                let next = if wait < Duration::from_secs(1) {
                    "the next attempt is due".to_owned()
                } else {
                    format!("the next attempt comes in {} s", wait.as_secs())
                };
                cause.clone().not_executed().next(next)
            }
            Status::LoggingIn(cause) => cause.clone().not_executed().note("a login is under way"),
            Status::NeedsLogin(cause) | Status::Failed(cause) => cause.clone().not_executed(),
            _ => {
                let fault =
                    Fault::before_sending(Cause::Timeout(Limit::Connect)).next("an attempt is under way");
                let health = self.health();
                match health.last_fault {
                    Some((_, last)) if health.since.is_none() => {
                        last.not_executed().next("an attempt is under way")
                    }
                    _ => fault,
                }
            }
        }
    }
}
