//! [`QuestionQueue`]: whose question a person is asked next, and which server has asked too much
//! (EL-12).
//!
//! A person answers one question at a time, and servers take turns. A server with too many
//! questions is refused, so that it can neither exhaust a person nor block other servers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::wire::RpcError;
use bowline_proto::wire::view::ElicitResult as Reply;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::fair_queue::FairQueue;
use super::{HostFuture, internal_error};

/// Limits for questions to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuestionLimits {
    /// Maximum number of questions of one server per minute (default 60).
    pub per_minute: usize,
    /// Maximum number of open questions of one server, including the one being asked (default 8).
    pub open: usize,
    /// How long a person has for one answer before the question is dismissed (default 15 minutes).
    /// Also limits the answer of a model.
    pub answer_timeout: Duration,
}

impl QuestionLimits {
    /// Sets the maximum number of questions of one server per minute.
    #[must_use]
    pub fn per_minute(mut self, questions: usize) -> Self {
        self.per_minute = questions;
        self
    }

    /// Sets the maximum number of open questions of one server, including the one being asked.
    #[must_use]
    pub fn open(mut self, questions: usize) -> Self {
        self.open = questions;
        self
    }

    /// Sets how long a person has for one answer before the question is dismissed.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }
}

impl Default for QuestionLimits {
    fn default() -> Self {
        Self { per_minute: 60, open: 8, answer_timeout: Duration::from_secs(15 * 60) }
    }
}

#[derive(Debug)]
pub(super) struct QuestionQueue {
    limits: QuestionLimits,
    person: FairQueue,
    servers: Arc<Mutex<HashMap<Arc<str>, ServerQuestions>>>,
}

#[derive(Debug, Default)]
struct ServerQuestions {
    open: usize,
    recent: VecDeque<Instant>,
}

/// A question that was admitted. Dropping it withdraws the question.
#[derive(Debug)]
pub(super) struct QuestionTicket {
    server: Arc<str>,
    servers: Arc<Mutex<HashMap<Arc<str>, ServerQuestions>>>,
}

impl QuestionQueue {
    pub(super) fn new(limits: QuestionLimits) -> Self {
        Self { limits, person: FairQueue::new(1), servers: Arc::default() }
    }

    pub(super) fn answer_timeout(&self) -> Duration {
        self.limits.answer_timeout
    }

    /// Admits a question of `server`, or refuses it.
    pub(super) fn admit(&self, server: &Arc<str>) -> Result<QuestionTicket, RpcError> {
        let now = Instant::now();
        let mut servers = self.servers.lock();
        let asker = servers.entry(Arc::clone(server)).or_default();
        while asker.recent.front().is_some_and(|asked| now.duration_since(*asked) >= MINUTE) {
            asker.recent.pop_front();
        }
        if asker.open >= self.limits.open || asker.recent.len() >= self.limits.per_minute {
            drop(servers);
            tracing::warn!(%server, "a server asks too much; it was refused");
            return Err(internal_error("too many questions"));
        }
        asker.recent.push_back(now);
        asker.open += 1;
        Ok(QuestionTicket { server: Arc::clone(server), servers: Arc::clone(&self.servers) })
    }

    /// Asks the question when its turn comes. Without an answer in time it is dismissed (EL-08).
    pub(super) async fn ask<'a>(
        &self,
        ticket: QuestionTicket,
        question: impl FnOnce() -> HostFuture<'a, Reply>,
    ) -> Reply {
        let turn = self.person.acquire(&ticket.server).await;
        let reply = tokio::time::timeout(self.limits.answer_timeout, question()).await;
        drop((turn, ticket));
        reply.unwrap_or(Reply::Cancel)
    }
}

impl Default for QuestionQueue {
    fn default() -> Self {
        Self::new(QuestionLimits::default())
    }
}

impl Drop for QuestionTicket {
    fn drop(&mut self) {
        if let Some(asker) = self.servers.lock().get_mut(&self.server) {
            asker.open -= 1;
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);
