//! Signs of life: what counts as traffic, the probe of an idle connection, and the question whether a
//! suspected session is still there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::fault::{Cause, Fault, Misbehaviour};
use bowline_proto::keepalive::{self, Heard, Keepalive, Probe, Proof};
use bowline_proto::loss::Verdict;
use bowline_proto::revision::Era;
use bowline_proto::session::{Attempt, Event};
use bowline_proto::wire::{code, method};

use super::authorize::Ask as Asking;
use super::{CallOptions, Failure, Live, News, Shared};

/// When calls were begun, and whether anything came of them. Kept under a lock that every call takes anyway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    last: Instant,
    /// The last call before the pause that the newest call ended.
    before_pause: Instant,
    /// How often the server answered, or said how far it is.
    heard: u64,
}

impl Traffic {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now, before_pause: now, heard: 0 }
    }

    pub(super) fn begun(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) > PAUSE {
            self.before_pause = self.last;
        }
        self.last = now;
    }

    pub(super) fn heard(&mut self) {
        self.heard += 1;
    }
}

/// Calls that follow each other closer than this are one conversation.
const PAUSE: Duration = Duration::from_secs(1);

/// The keepalive of one server: the decisions are `proto::keepalive`'s, the probes go out from here.
pub(super) struct Watch {
    keepalive: Keepalive,
    live: Option<Arc<Live>>,
    doubt: Option<Doubt>,
}

/// A call went unanswered.
struct Doubt {
    /// Its number, if its caller left before its time was up. The server may be busy with older ones, and
    /// they have clocks of their own.
    left: Option<u64>,
    /// What had been heard of the server by then.
    heard: u64,
}

impl Watch {
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self { keepalive: Keepalive::new(interval), live: None, doubt: None }
    }

    pub(super) fn connected(&mut self, live: &Arc<Live>) {
        // A modern server over HTTP has no session to keep warm, and one without sessions has neither.
        let needed = !live.wire.is_http() || live.session;
        self.keepalive.connected(Instant::now(), &live.peer, needed);
        self.live = Some(Arc::clone(live));
    }

    pub(super) fn disconnected(&mut self) {
        self.keepalive.disconnected();
        self.live = None;
        self.doubt = None;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.keepalive.poll_timeout()
    }

    /// The machine slept: whatever was quiet until now is to be asked at once.
    pub(super) fn hurry(&mut self, shared: &Shared) {
        // What is not told first would put the probe off again.
        self.keepalive.traffic(shared.core().traffic.last);
        self.keepalive.hurry();
    }

    /// A call went unanswered for all the time it had, or its caller left it after a long silence: with its
    /// number, and the time it still had. The server then gets that time before it is asked, or most of it:
    /// whoever is impatient may not get a process ended that works.
    pub(super) fn doubt(
        &mut self,
        now: Instant,
        shared: &Shared,
        attempt: Attempt,
        left: Option<(u64, Duration)>,
    ) {
        if self.live.as_ref().is_none_or(|live| live.attempt != attempt) {
            return;
        }
        let heard = shared.core().traffic.heard;
        if self.doubt.as_ref().is_some_and(|doubt| doubt.heard != heard) {
            self.keepalive.trust();
            self.doubt = None;
        }
        let grace = left.map_or(Duration::ZERO, |(_, left)| left.min(GRACE));
        self.keepalive.doubt(now + grace);
        // An older doubt stands, unless this one is more than a doubt.
        if self.doubt.is_none() || left.is_none() {
            self.doubt = Some(Doubt { left: left.map(|(id, _)| id), heard });
        }
    }

    /// The server forgot the session: was it idle for too long?
    pub(super) fn session_dropped(&mut self, now: Instant, traffic: Traffic) {
        self.keepalive.traffic(traffic.before_pause);
        self.keepalive.session_dropped(now);
    }

    /// Sends a probe if one is due.
    pub(super) fn look(&mut self, now: Instant, shared: &Arc<Shared>) {
        let Some(live) = &self.live else { return };
        // What was said since is told when it matters, and not before: a call that finds the session gone is
        // no sign that it was there.
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        let busy = {
            let core = shared.core();
            self.keepalive.traffic(core.traffic.last);
            match &self.doubt {
                // It has spoken since.
                Some(doubt) if doubt.heard != core.traffic.heard => {
                    self.keepalive.trust();
                    self.doubt = None;
                    !core.calls.is_empty()
                }
                Some(doubt) if self.keepalive.doubts(now) => {
                    doubt.left.is_some_and(|left| core.calls.ids().any(|open| open < left))
                }
                _ => !core.calls.is_empty(),
            }
        };
        let Some(probe) = self.keepalive.handle_timeout(now, busy) else { return };
        // The probe settles it.
        self.doubt = None;
        let (shared, live) = (Arc::clone(shared), Arc::clone(live));
        tokio::spawn(async move {
            let heard = shared.probe(&live, probe).await;
            let _ = shared.news.send(News::Probed(live.attempt, heard));
        });
    }

    /// What a probe proves. An event: the server is not alive, or no longer knows us.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        attempt: Attempt,
        heard: Result<Heard, Failure>,
    ) -> Option<Event> {
        let live = self.live.as_ref().filter(|live| live.attempt == attempt)?;
        let (heard, event) = match heard {
            Ok(heard) => (heard, None),
            // Somebody else has found out, and says so.
            Err(Failure::Left) => return None,
            Err(failure) => (Heard::Failed, Some(death(live, failure))),
        };
        match self.keepalive.answered(now, heard) {
            Proof::Alive => None,
            Proof::Dead => event,
        }
    }
}

fn death(live: &Live, failure: Failure) -> Event {
    match failure {
        Failure::Session(judged) => match (judged.verdict, &judged.shown) {
            (Verdict::Suspect, Failure::Fault(fault)) if fault.keeps_away() => Event::Lost(fault.clone()),
            (Verdict::Login | Verdict::Answer, _) => death(live, judged.shown),
            (_, shown) => Event::Forgotten { fault: shown.as_loss(), proven: live.is_proven() },
        },
        // The probe's own time is nobody else's.
        Failure::Fault(fault) if matches!(fault.cause, Cause::Timeout(_)) => {
            Event::Lost(Fault::new(Cause::Cut).note("the server answers nothing, not even a probe"))
        }
        Failure::Fault(fault) => Event::Lost(fault),
        Failure::Server(error) | Failure::Declined(error) => {
            let fault = Fault::protocol(Misbehaviour::BadResult).note("a probe was answered with an error");
            Event::Lost(fault.body(error.message.as_bytes()))
        }
        Failure::Usage(_) | Failure::Left => Event::Lost(Fault::before_sending(Cause::Closed)),
    }
}

impl Shared {
    /// Sends a probe of the keepalive. `Err`: what it proves, beyond that the server is not alive.
    pub(super) async fn probe(self: &Arc<Self>, live: &Arc<Live>, probe: Probe) -> Result<Heard, Failure> {
        let method = match probe {
            // LC-14
            Probe::Ping if live.peer.era() == Era::Modern => method::DISCOVER,
            Probe::Ping => method::PING,
            Probe::List(method) => method,
        };
        // A process that works on something may be slow to answer, and is dear to replace.
        let patience = if live.wire.is_http() { PROBE } else { 3 * PROBE };
        let options = CallOptions::new().timeout(patience).max_timeout(patience);
        let before = self.core().traffic.heard;
        let generation = self.generation();
        let mut answered = self.once(live, method, None, &options).await;
        if let Err(failure) = &answered
            && let Some(refused) = failure.denial()
            && self.be_let_in(refused, generation, method, Asking::Nobody).await.is_ok()
        {
            answered = self.once(live, method, None, &options).await;
        }
        match answered {
            Ok(_) => {
                live.prove();
                Ok(Heard::Alive)
            }
            Err(Failure::Server(error)) if error.code == code::METHOD_NOT_FOUND => Ok(Heard::Unsupported),
            // Whoever says that it is asked too often is there, and so is whoever refuses the question.
            Err(Failure::Fault(Fault { cause: Cause::Status { code: 429, .. }, .. })) => Ok(Heard::Alive),
            Err(Failure::Fault(Fault { cause: Cause::Status { code: 400..500, .. }, .. })) => {
                Ok(Heard::Unsupported)
            }
            // It answers others, so it is only slow with this.
            Err(Failure::Fault(Fault { cause: Cause::Timeout(_), .. }))
                if self.core().traffic.heard != before =>
            {
                Ok(Heard::Alive)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Whether the session of a link is still there, by the cheapest request that has no effect. Many may
    /// ask at once; one question serves all who came before its answer.
    pub(super) async fn is_still_there(self: &Arc<Self>, live: &Arc<Live>, verdict: Verdict) -> Standing {
        let came = Instant::now();
        let mut asked = live.asked.lock().await;
        // What is gone stays gone.
        if let Some((at, standing)) = *asked
            && (at >= came || standing == Standing::Gone)
        {
            return standing;
        }
        let begun = Instant::now();
        let probe = match keepalive::smallest_list(&live.peer) {
            Some(list) if verdict == Verdict::Uninitialized => Probe::List(list),
            _ => Probe::Ping,
        };
        let standing = match self.probe(live, probe).await {
            // An error like any other is an answer.
            Ok(_) | Err(Failure::Server(_)) => Standing::There,
            Err(Failure::Session(judged)) => match (judged.verdict, &judged.shown) {
                (Verdict::Login, _) => Standing::Unknown,
                (Verdict::Suspect, Failure::Fault(fault)) if fault.keeps_away() => Standing::Unknown,
                _ => Standing::Gone,
            },
            // The link was left meanwhile. If that was for the session, this is one more who found out.
            Err(Failure::Left) if live.is_forgotten() => Standing::Gone,
            // Nobody could be asked.
            Err(_) => Standing::Unknown,
        };
        *asked = Some((begun, standing));
        standing
    }
}

/// What a question about a session has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    There,
    Gone,
    /// It could not be asked: nothing is thrown away for that.
    Unknown,
}

/// The longest that a server is spared the question for the sake of a call whose caller has left.
const GRACE: Duration = Duration::from_secs(60);
/// How long a server may take to answer a probe before it counts as dead.
const PROBE: Duration = Duration::from_secs(10);
