//! Waits for a link: how long, and which fault is reported if there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bowline_auth::RefreshState;
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::session::{Command, Status};

use tokio::sync::watch;

use super::authorize::slow_refresh;
use super::call::FAR;
use super::options::Purpose;
use super::{CallOptions, Failure, Live, Shared};

/// A caller that waits for a link until this is dropped.
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

/// Waits until the state of the token refresh changes; forever if there is no login.
async fn refresh_state_change(refresh: Option<&mut watch::Receiver<RefreshState>>) {
    if let Some(state) = refresh
        && state.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

impl Shared {
    /// Returns the live link. Waits while the connection is being made, and up to `reconnect_wait`
    /// if it was lost.
    pub(crate) async fn ready(&self, patience: Duration) -> Result<Arc<Live>, Failure> {
        self.ready_for(patience, &CallOptions::new()).await
    }

    /// Returns the live link for a call with these options. Background requests do not count as
    /// waiting callers: a person is not prompted for them.
    pub(super) async fn ready_for(
        &self,
        patience: Duration,
        options: &CallOptions,
    ) -> Result<Arc<Live>, Failure> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let mut begun = Instant::now();
        // Start of the wait for a server that is down. Time spent on a token refresh does not
        // count.
        let mut away = begun;
        let mut status = self.status();
        let mut refresh = self.identity().map(bowline_auth::Identity::refresh_state);
        let mut looked = false;
        let _waiting = (options.purpose == Purpose::Caller).then(|| Waiting::begin(&self.waiting));
        loop {
            let seen = status.borrow_and_update().clone();
            if let Some(live) = self.live() {
                return Ok(live);
            }
            let (hopeless, down) = {
                let core = self.core();
                (core.session.blocking_fault(Instant::now()).cloned(), core.session.has_connected_or_failed())
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
                // A waiting caller is worth a connection attempt.
                Status::Idle | Status::BackingOff { .. } | Status::NeedsLogin(_) | Status::Failed(_) => {
                    self.command(Command::Connect);
                }
                Status::Connecting | Status::LoggingIn(_) | Status::Ready(_) => {}
            }
            let refreshing = matches!(seen, Status::LoggingIn(_))
                && refresh.as_mut().is_some_and(|state| *state.borrow_and_update() != RefreshState::Idle);
            let end = begun + patience.min(FAR);
            let end = if down && !refreshing { end.min(away + self.reconnect_wait.min(FAR)) } else { end };
            let changed = async {
                tokio::select! {
                    changed = status.changed() => changed.is_ok(),
                    () = refresh_state_change(refresh.as_mut()) => true,
                }
            };
            let since = Instant::now();
            let (changed, aside) = self.in_time(end, changed).await;
            begun += aside;
            away += if refreshing { since.elapsed() } else { aside };
            match changed {
                Some(true) => {}
                Some(false) => return Err(Failure::Fault(Fault::before_sending(Cause::Closed))),
                None if *self.status.borrow() == Status::Closed => {}
                None => return Err(Failure::Fault(self.why_not(begun.elapsed()))),
            }
        }
    }

    /// The fault of a call that found no link in time, and when the next attempt is due.
    fn why_not(&self, waited: Duration) -> Fault {
        let now = Instant::now();
        match &*self.status.borrow() {
            Status::BackingOff { until, cause } => {
                let wait = until.saturating_duration_since(now);
                let next = if wait < Duration::from_secs(1) {
                    "the next attempt is due".to_owned()
                } else {
                    format!("the next attempt comes in {} s", wait.as_secs())
                };
                cause.clone().not_executed().with_next_step(next)
            }
            Status::LoggingIn(cause) => {
                // A refresh needs no person, so report what it waits for.
                let refresh = self.identity().map(|auth| auth.refresh_state().borrow().clone());
                refresh
                    .and_then(|state| slow_refresh(&state, waited))
                    .unwrap_or_else(|| cause.clone().not_executed().with_note("a login is under way"))
            }
            Status::NeedsLogin(cause) | Status::Failed(cause) => cause.clone().not_executed(),
            _ => {
                let fault = Fault::before_sending(Cause::Timeout(Limit::Connect))
                    .with_next_step("an attempt is under way");
                let health = self.health();
                match health.last_fault {
                    Some((_, last)) if health.since.is_none() => {
                        last.not_executed().with_next_step("an attempt is under way")
                    }
                    _ => fault,
                }
            }
        }
    }
}
