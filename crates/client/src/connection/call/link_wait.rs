//! Waits for a link: how long, and which fault is reported if there is none.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::client::session::{Command, Status};
use bowline_proto::fault::{Cause, Fault, Limit};

use crate::auth::{RefreshState, Watch};
use crate::clock;
use crate::connection::engine::MAX_WAIT;
use crate::connection::login::slow_refresh_fault;
use crate::connection::options::RequestOrigin;
use crate::connection::{CallOptions, Connection, Failure, LiveLink};

/// Waits until the state of the token refresh changes; forever if there is no login.
async fn wait_for_refresh_change(refresh: Option<&mut Watch<RefreshState>>) {
    if let Some(state) = refresh
        && state.changed().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}

impl Connection {
    /// Returns the live link. Waits while the connection is being made, and up to `reconnect_wait`
    /// if it was lost.
    pub(crate) async fn wait_for_link(&self, limit: Duration) -> Result<Arc<LiveLink>, Failure> {
        self.wait_for_link_with(limit, &CallOptions::new()).await
    }

    /// Returns the live link for a call with these options. Background requests do not count as
    /// waiting callers: a person is not prompted for them.
    pub(crate) async fn wait_for_link_with(
        &self,
        limit: Duration,
        options: &CallOptions,
    ) -> Result<Arc<LiveLink>, Failure> {
        if let Some(live) = self.links.live() {
            return Ok(live);
        }
        let mut begun = clock::now();
        // Start of the wait for a server that is down. Time spent on a token refresh does not
        // count.
        let mut away = begun;
        let mut status = self.links.status();
        let mut refresh = self.login.identity().map(crate::auth::Identity::refresh_state);
        let mut looked = false;
        let _waiting = (options.origin == RequestOrigin::Caller).then(|| self.links.count_waiting_caller());
        loop {
            let seen = status.borrow_and_update().clone();
            if let Some(live) = self.links.live() {
                return Ok(live);
            }
            let (hopeless, down) = {
                let core = self.engine.state();
                (core.session.blocking_fault(clock::now()).cloned(), core.session.has_connected_or_failed())
            };
            if let Some(fault) = hopeless {
                if options.origin != RequestOrigin::Caller
                    || std::mem::replace(&mut looked, true)
                    || !self.login.can_log_in_now().await
                {
                    return Err(Failure::Fault(fault.not_executed()));
                }
                self.engine.send_command(Command::LoggedIn);
            }
            match seen {
                Status::Closed => return Err(Failure::Fault(Fault::before_sending(Cause::Closed))),
                // A waiting caller is worth a connection attempt.
                Status::Idle | Status::BackingOff { .. } | Status::NeedsLogin(_) | Status::Failed(_) => {
                    self.engine.send_command(Command::Connect);
                }
                _ => {}
            }
            let refreshing = matches!(seen, Status::LoggingIn(_))
                && refresh.as_ref().is_some_and(|state| state.current() != RefreshState::Idle);
            let end = begun + limit.min(MAX_WAIT);
            let end = if down && !refreshing {
                end.min(away + self.server.reconnect_wait.min(MAX_WAIT))
            } else {
                end
            };
            let changed = async {
                tokio::select! {
                    changed = status.changed() => changed.is_ok(),
                    () = wait_for_refresh_change(refresh.as_mut()) => true,
                }
            };
            let since = clock::now();
            let (changed, aside) = self.login.run_until_deadline(self.links.status(), end, changed).await;
            begun += aside;
            away += if refreshing { clock::elapsed(since) } else { aside };
            match changed {
                Some(true) => {}
                Some(false) => return Err(Failure::Fault(Fault::before_sending(Cause::Closed))),
                None if *self.links.status().borrow() == Status::Closed => {}
                None => return Err(Failure::Fault(self.no_link_fault(clock::elapsed(begun)))),
            }
        }
    }

    /// The fault of a call that found no link in time, and when the next attempt is due.
    fn no_link_fault(&self, waited: Duration) -> Fault {
        let now = clock::now();
        match &*self.links.status().borrow() {
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
                let refresh = self.login.identity().map(|auth| auth.refresh_state().current());
                refresh
                    .and_then(|state| slow_refresh_fault(&state, waited))
                    .unwrap_or_else(|| cause.clone().not_executed().with_note("a login is under way"))
            }
            Status::NeedsLogin(cause) | Status::Failed(cause) => cause.clone().not_executed(),
            _ => {
                let fault = Fault::before_sending(Cause::Timeout(Limit::Connect))
                    .with_next_step("an attempt is under way");
                let health = self.events.health();
                match health.last_fault {
                    Some((_, last)) if health.connected_since.is_none() => {
                        last.not_executed().with_next_step("an attempt is under way")
                    }
                    _ => fault,
                }
            }
        }
    }
}
