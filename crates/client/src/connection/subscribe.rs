//! What a modern server is asked to tell unasked: `subscriptions/listen`, kept open (group SB).
//!
//! Whoever wants to hear of something says so in [`Wants`]; a task per link sees to it that the server is listened
//! to for just that: one for lists and resources, and one for tasks, whose refusal must not cost the others. To want
//! more or less opens a new subscription before the old one is left, so that nothing is missed between them. One
//! that was cut is opened again, and what may have been missed meanwhile is looked at. One that the server ended
//! in good order is not asked for again until somebody wants something: whoever waits for it is told that it ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bowline_proto::backoff::Backoff;
use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault, Limit, Misbehaviour};
use bowline_proto::revision::Era;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, Progress};
use bowline_proto::wire::view::{Acknowledged, Capabilities, Feature, subscription_id};
use bowline_proto::wire::{Json, RpcError, code, meta, method};
use serde::Serialize;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::exchange::Exchange;
use super::link::lock;
use super::{Failure, Live, Outcome, Shared, Wire};
use crate::events::{Event, Notification};

/// What is wanted, what was granted, and what is open.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    wants: watch::Sender<Wants>,
    /// What came of asking for lists and resources. `None`: nothing yet, or nothing any more.
    granted: watch::Sender<Option<Granted>>,
    /// By the id of the request. There are two while one replaces the other.
    open: Mutex<HashMap<u64, Open>>,
    /// Legacy: held while a resource is subscribed to or no longer, so that the server hears both in order.
    turns: [tokio::sync::Mutex<()>; 16],
}

/// What a subscription is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Lists and resources.
    Changes,
    /// Tasks that are waited for.
    Tasks,
}

/// What somebody wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wants {
    lists: bool,
    /// How many want to hear of each resource.
    uris: BTreeMap<String, usize>,
    tasks: BTreeMap<String, usize>,
    /// How often somebody wanted something. What the server has ended is asked for again then.
    times: u64,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Granted {
    asked: Filter,
    /// How often something had been wanted by then.
    times: u64,
    answer: Result<Acknowledged, String>,
}

/// `notifications` of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    resource_subscriptions: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    task_ids: BTreeSet<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Debug)]
struct Open {
    ended: oneshot::Sender<Ending>,
    acknowledged: Option<oneshot::Sender<Acknowledged>>,
}

/// How a subscription ended (SB-04).
#[derive(Debug)]
enum Ending {
    /// With a result, or because the server cancelled it.
    Over,
    /// The server answered with an error.
    Refused(RpcError),
    /// It could not be opened, and cannot be by trying again, unless it could be before.
    Unfit(Fault),
    /// It was cut.
    Cut(Fault),
}

/// One that is open.
type Listening = Pin<Box<dyn Future<Output = Ending> + Send>>;

impl Subscriptions {
    fn want(&self, change: impl FnOnce(&mut Wants)) {
        self.wants.send_if_modified(|wants| {
            let before = wants.clone();
            change(wants);
            *wants != before
        });
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.wants.borrow().uris.keys().cloned().collect()
    }

    /// An answer to a subscription, if that is what it is.
    pub(super) fn finish(&self, id: Option<u64>, outcome: Outcome) -> bool {
        let Some(open) = id.and_then(|id| lock(&self.open).remove(&id)) else { return false };
        let ending = match outcome {
            Ok(_) => Ending::Over,
            Err(Failure::Server(error)) => Ending::Refused(error),
            Err(Failure::Fault(fault)) => Ending::Cut(fault),
            Err(_) => Ending::Cut(Fault::new(Cause::Closed)),
        };
        let _ = open.ended.send(ending);
        true
    }

    /// SB-04, CN-05: the only thing that a modern server may cancel.
    pub(super) fn cancelled(&self, id: Option<u64>) -> bool {
        self.finish(id, Ok(Json::empty_object()))
    }

    pub(super) fn acknowledged(&self, params: &Json) {
        let Some(id) = subscription_id(params).and_then(|id| id.as_ours()) else { return };
        let Ok(granted) = Acknowledged::decode(params) else { return };
        let waiting = lock(&self.open).get_mut(&id).and_then(|open| open.acknowledged.take());
        if let Some(waiting) = waiting {
            let _ = waiting.send(granted);
        }
    }

    /// SB-03: whether a notification belongs to a subscription that is open, or to none at all.
    pub(super) fn expects(&self, params: Option<&Json>) -> bool {
        match params.and_then(subscription_id) {
            Some(id) => id.as_ours().is_some_and(|id| lock(&self.open).contains_key(&id)),
            None => true,
        }
    }
}

impl Filter {
    /// SB-01: what is wanted, as far as it is offered.
    fn of(part: Part, wants: &Wants, offered: &Capabilities) -> Self {
        if part == Part::Tasks {
            return Self { task_ids: wants.tasks.keys().cloned().collect(), ..Self::default() };
        }
        let says =
            |feature: Option<Feature>| wants.lists && feature.is_some_and(|feature| feature.list_changed);
        let subscribe = offered.resources.is_some_and(|resources| resources.subscribe);
        Self {
            tools_list_changed: says(offered.tools),
            prompts_list_changed: says(offered.prompts),
            resources_list_changed: says(offered.resources),
            resource_subscriptions: wants.uris.keys().filter(|_| subscribe).cloned().collect(),
            task_ids: BTreeSet::new(),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it holds a list that the other does not.
    fn adds_lists(&self, other: Option<&Self>) -> bool {
        let none = Self::default();
        let other = other.unwrap_or(&none);
        (self.tools_list_changed && !other.tools_list_changed)
            || (self.prompts_list_changed && !other.prompts_list_changed)
            || (self.resources_list_changed && !other.resources_list_changed)
    }

    fn params(&self) -> Json {
        let filter = Json::of(self).expect("flags and strings are JSON");
        Edit::new().set("notifications", &filter).apply(None).expect("an object is JSON")
    }
}

impl Shared {
    /// Somebody listens: lists that change are to be told.
    pub(super) fn want_lists(&self) {
        self.subscriptions.want(|wants| {
            wants.lists = true;
            wants.times += 1;
        });
    }

    /// Somebody wants to hear of a resource. Taken back with [`Shared::unwant_resource`]. Gives the number of the want.
    pub(crate) fn want_resource(&self, uri: &str) -> u64 {
        let mut times = 0;
        self.subscriptions.want(|wants| {
            *wants.uris.entry(uri.to_owned()).or_default() += 1;
            wants.times += 1;
            times = wants.times;
        });
        times
    }

    /// Says whether that was the last who wanted to hear of it.
    pub(crate) fn unwant_resource(&self, uri: &str) -> bool {
        let mut last = false;
        self.subscriptions.want(|wants| last = take_back(&mut wants.uris, uri));
        last
    }

    /// TN-08: the same for a task.
    pub(crate) fn want_task(&self, id: &str) {
        self.subscriptions.want(|wants| {
            *wants.tasks.entry(id.to_owned()).or_default() += 1;
            wants.times += 1;
        });
    }

    pub(crate) fn unwant_task(&self, id: &str) {
        self.subscriptions.want(|wants| {
            take_back(&mut wants.tasks, id);
        });
    }

    /// Waits until a modern server has said whether it will tell of a resource (SB-02). `Err`: why not.
    /// What it said to an earlier want is no answer.
    pub(crate) async fn granted(&self, uri: &str, want: u64, patience: Duration) -> Result<(), String> {
        let mut granted = self.subscriptions.granted.subscribe();
        let asked = |granted: &Option<Granted>| {
            granted.as_ref().is_some_and(|granted| {
                granted.times >= want && granted.asked.resource_subscriptions.contains(uri)
            })
        };
        let Ok(Ok(granted)) = timeout(patience, granted.wait_for(asked)).await else {
            return Err("the server did not answer in time".to_owned());
        };
        match granted.as_ref().map(|granted| &granted.answer) {
            Some(Ok(answer)) if answer.resource_uris.iter().any(|granted| **granted == *uri) => Ok(()),
            Some(Err(why)) => Err(why.clone()),
            _ => Err("the server does not tell of changes of this resource".to_owned()),
        }
    }

    /// Ends when the server will not tell of a resource any more.
    pub(crate) async fn refused(&self, uri: &str) {
        let mut granted = self.subscriptions.granted.subscribe();
        let refused = |granted: &Option<Granted>| {
            granted.as_ref().is_some_and(|granted| {
                granted.answer.is_err() && granted.asked.resource_subscriptions.contains(uri)
            })
        };
        if granted.wait_for(refused).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Legacy: whose turn it is to speak to the server of a resource.
    pub(crate) async fn resource_turn(&self, uri: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let turns = &self.subscriptions.turns;
        let sum = uri.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        turns[sum % turns.len()].lock().await
    }

    pub(crate) fn wants_resource(&self, uri: &str) -> bool {
        self.subscriptions.wants.borrow().uris.contains_key(uri)
    }

    /// Keeps the server listened to for what is wanted, for as long as the link lasts. `gap`: what was missed
    /// before it is looked at as soon as nothing more can be.
    pub(super) async fn supervise(self: Arc<Self>, live: Arc<Live>, part: Part, gap: bool) {
        let mut wants = self.subscriptions.wants.subscribe();
        let offered = live.peer.capabilities.clone();
        let mut pace = Pace { backoff: Backoff::new(FLOOR, CAP, fastrand::u64(..)), trouble: None };
        let mut gap = gap;
        // The subscription that is open, and for what.
        let mut current: Option<Current> = None;
        // The subscription that it has replaced, heard for a moment longer.
        let mut replaced: Option<Replaced> = None;
        // What the server will not tell, and how often something had been wanted by then.
        let mut settled: Option<(Filter, u64)> = None;
        // Whether the server was ever listened to.
        let mut proven = false;
        self.answer_is(part, None, 0);
        loop {
            let (filter, times) = {
                let wants = wants.borrow_and_update();
                (Filter::of(part, &wants, &offered), wants.times)
            };
            let is_open = current.as_ref().is_some_and(|current| current.filter == filter);
            let is_settled = settled.as_ref().is_some_and(|(no, at)| *no == filter && *at == times);
            if filter.is_empty() {
                current = None;
                self.answer_is(part, None, times);
            }
            if filter.is_empty() || is_open || is_settled {
                if gap && !is_open {
                    // There is nothing to listen to, so there is nothing to wait for.
                    gap = false;
                    self.after_gap(&live);
                }
                if let Some(current) = current.as_ref().filter(|_| is_open) {
                    self.answer_is(part, Some((&filter, Ok(current.answer.clone()))), times);
                }
                let since = current.as_ref().map(|current| current.since);
                // SB-06: nobody asks how long it is quiet.
                tokio::select! {
                    ended = ending(&mut current) => match ended {
                        Ending::Over => {
                            tracing::debug!(server = %self.name, "the server ended the subscription");
                            self.answer_is(part, Some((&filter, Err(ended.to_string()))), times);
                            settled = Some((filter, times));
                        }
                        Ending::Refused(_) | Ending::Unfit(_) | Ending::Cut(_) => {
                            self.answer_is(part, None, times);
                            gap = part == Part::Changes;
                            if since.is_some_and(|since| since.elapsed() > HELD) {
                                pace.trouble = None;
                            }
                            pace.wait(&self, &ended).await;
                        }
                    },
                    () = heard_out(&mut replaced) => {}
                    changed = wants.changed() => if changed.is_err() {
                        return;
                    },
                }
                continue;
            }
            let opened = Arc::new(AtomicBool::new(false));
            let (sender, acknowledged) = oneshot::channel();
            let listening =
                Listen { filter: filter.clone(), acknowledged: sender, opened: Arc::clone(&opened) };
            let mut new: Listening = Box::pin(Arc::clone(&self).listen(Arc::clone(&live), listening));
            match acknowledge(&mut new, &mut current, acknowledged, &opened).await {
                Ok(answer) => {
                    proven = true;
                    let answer = answer.unwrap_or_else(|| filter.granted());
                    // What was kept of lists that were not listened to may be old.
                    if filter.adds_lists(current.as_ref().map(|current| &current.filter)) {
                        self.outdate_all();
                        gap |= self.is_tracking();
                    }
                    let new = Current { filter, since: Instant::now(), answer, listening: new };
                    replaced = current.replace(new).map(|old| -> Replaced {
                        Box::pin(async { drop(timeout(LINGER, old.listening).await) })
                    });
                    if std::mem::take(&mut gap) {
                        self.after_gap(&live);
                    }
                }
                // SB-05: nothing is remembered, so it is asked again.
                Err(ended @ Ending::Cut(_)) => pace.wait_beside(&self, &ended, &mut current).await,
                // A server that was listened to before is having trouble, unless it says that it knows no such thing.
                Err(ended @ Ending::Unfit(_)) if proven => {
                    pace.wait_beside(&self, &ended, &mut current).await;
                }
                Err(ended @ Ending::Refused(_)) if proven && current.is_none() && !ended.is_final() => {
                    pace.wait_beside(&self, &ended, &mut current).await;
                }
                Err(ended) => {
                    let why = ended.to_string();
                    tracing::info!(server = %self.name, why, "the server does not tell of changes");
                    // What is told already goes on being told.
                    let mut no = filter.clone();
                    if let Some(current) = &current {
                        no.resource_subscriptions
                            .retain(|uri| !current.filter.resource_subscriptions.contains(uri));
                    }
                    self.answer_is(part, Some((&no, Err(why))), times);
                    settled = Some((filter, times));
                }
            }
        }
    }

    /// What came of asking, for whoever waits for it.
    fn answer_is(&self, part: Part, answer: Option<(&Filter, Result<Acknowledged, String>)>, times: u64) {
        if part == Part::Changes {
            let granted = answer.map(|(asked, answer)| Granted { asked: asked.clone(), times, answer });
            self.subscriptions.granted.send_if_modified(|before| {
                let changed = *before != granted;
                *before = granted;
                changed
            });
        }
    }

    /// One subscription, from the request to its end. Dropped, it is cancelled in the way of the link.
    async fn listen(self: Arc<Self>, live: Arc<Live>, listen: Listen) -> Ending {
        let Listen { filter, acknowledged, opened } = listen;
        let id = self.core().calls.fresh_id();
        let (ended, ending) = oneshot::channel();
        let open = Open { ended, acknowledged: Some(acknowledged) };
        lock(&self.subscriptions.open).insert(id, open);
        let _leave = Leave { shared: &self, live: &live, id };
        let params = filter.params();
        let frame = outgoing::request(id, method::LISTEN, Some(&params), &live.meta, Progress::Unwanted)
            .expect("the params are an object");
        match &live.wire {
            Wire::Pipe(writer) => match writer.send(&frame).await {
                Ok(()) => {
                    opened.store(true, Ordering::Relaxed);
                    ending.await.unwrap_or_else(|_| Ending::Cut(Fault::new(Cause::Closed)))
                }
                Err(fault) => Ending::Cut(fault),
            },
            Wire::Http { link, headers } => {
                let headers = self.call_headers(&live, headers, method::LISTEN, Some(&params));
                let exchange = Exchange { shared: &self, link, wire: &live.wire, id, era: Era::Modern };
                tokio::select! {
                    biased;
                    Ok(ending) = ending => ending,
                    reply = exchange.run_listening(frame.body(), &headers, &opened) => match reply {
                        Reply::Result(_) => Ending::Over,
                        Reply::Error { error, .. } => Ending::Refused(error),
                        Reply::Fault(fault) if is_unfit(&fault) => Ending::Unfit(fault),
                        Reply::Fault(fault) => Ending::Cut(fault),
                        Reply::Accepted | Reply::Silence => {
                            Ending::Unfit(Fault::protocol(Misbehaviour::NoAnswer))
                        }
                    },
                }
            }
            Wire::EventStream { .. } => Ending::Unfit(Fault::protocol(Misbehaviour::NoAnswer)),
        }
    }

    /// Something may have been missed: it is looked at, or said to have changed (SB-05).
    fn after_gap(self: &Arc<Self>, live: &Arc<Live>) {
        let (shared, live) = (Arc::clone(self), Arc::clone(live));
        self.errands.serve(async move { shared.look_again(live).await });
    }

    /// Whoever watches a resource reads it again.
    pub(super) fn say_resources_changed(&self) {
        for uri in self.watched_uris() {
            let params = Edit::new().set_str("uri", &uri).apply(None).expect("a string is JSON");
            let said = Notification {
                method: method::RESOURCE_UPDATED.into(),
                params: Some(params),
                inferred: true,
            };
            self.tell(Event::Notification(said));
        }
    }
}

/// What one subscription is opened with.
struct Listen {
    filter: Filter,
    acknowledged: oneshot::Sender<Acknowledged>,
    /// Set once the server has answered with a stream, or has taken the request on a pipe.
    opened: Arc<AtomicBool>,
}

/// How soon what was cut is opened again.
struct Pace {
    backoff: Backoff,
    /// Since when there is trouble.
    trouble: Option<Instant>,
}

impl Pace {
    async fn wait(&mut self, shared: &Shared, ended: &Ending) {
        let since = *self.trouble.get_or_insert_with(Instant::now);
        let wait = self.backoff.wait_after(since.elapsed());
        tracing::debug!(server = %shared.name, %ended, ?wait, "the subscription is opened again");
        sleep(wait).await;
    }

    /// The same while another subscription is still heard.
    async fn wait_beside(&mut self, shared: &Shared, ended: &Ending, current: &mut Option<Current>) {
        let wait = self.wait(shared, ended);
        tokio::pin!(wait);
        tokio::select! {
            () = &mut wait => {}
            _ = ending(current) => wait.await,
        }
    }
}

/// The subscription that is open.
struct Current {
    filter: Filter,
    since: Instant,
    answer: Acknowledged,
    listening: Listening,
}

/// The end of the subscription that is open. Without one there is none.
async fn ending(current: &mut Option<Current>) -> Ending {
    match current {
        Some(open) => {
            let ended = (&mut open.listening).await;
            *current = None;
            ended
        }
        None => std::future::pending().await,
    }
}

/// What was said before the new subscription began may still be on its way by the old one. What both of them say is
/// heard twice, which costs no more than one look too many.
type Replaced = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn heard_out(replaced: &mut Option<Replaced>) {
    match replaced {
        Some(hearing) => {
            hearing.await;
            *replaced = None;
        }
        None => std::future::pending().await,
    }
}

/// Waits for the first word of a new subscription, while the old one goes on. A server that opens one and never
/// acknowledges is taken at its silence. `Err`: it ended instead.
async fn acknowledge(
    new: &mut Listening,
    current: &mut Option<Current>,
    acknowledged: oneshot::Receiver<Acknowledged>,
    opened: &AtomicBool,
) -> Result<Option<Acknowledged>, Ending> {
    let word = timeout(FIRST_WORD, acknowledged);
    tokio::pin!(word);
    loop {
        tokio::select! {
            biased;
            ended = &mut *new => return Err(ended),
            word = &mut word => {
                return match word.ok().and_then(Result::ok) {
                    None if !opened.load(Ordering::Relaxed) => {
                        Err(Ending::Cut(Fault::new(Cause::Timeout(Limit::Connect))))
                    }
                    word => Ok(word),
                };
            }
            _ = ending(current) => {}
        }
    }
}

impl Filter {
    fn granted(&self) -> Acknowledged {
        Acknowledged {
            tools: self.tools_list_changed,
            prompts: self.prompts_list_changed,
            resources: self.resources_list_changed,
            resource_uris: self.resource_subscriptions.iter().map(|uri| uri.as_str().into()).collect(),
            task_ids: self.task_ids.iter().map(|id| id.as_str().into()).collect(),
        }
    }
}

/// An open subscription that is left.
struct Leave<'a> {
    shared: &'a Arc<Shared>,
    live: &'a Arc<Live>,
    id: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // Still in the table: the server knows of no end.
        if lock(&self.shared.subscriptions.open).remove(&self.id).is_some() {
            self.shared.cancel(self.live, self.id, "no longer listened to");
        }
    }
}

impl Ending {
    /// The server has no subscriptions at all.
    fn is_final(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == code::METHOD_NOT_FOUND)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over => f.write_str("the server ended the subscription"),
            Self::Refused(error) => error.fmt(f),
            Self::Unfit(fault) | Self::Cut(fault) => fault.fmt(f),
        }
    }
}

/// A status that says no, or an answer that is none: it would be the same again.
fn is_unfit(fault: &Fault) -> bool {
    match &fault.cause {
        Cause::Status { code, .. } => (400..500).contains(code) && !matches!(code, 408 | 425 | 429),
        Cause::LoginRequired { .. } => true,
        // One message that is too large is not the stream's fault.
        Cause::Protocol(what) => !matches!(what, Misbehaviour::NoAnswer | Misbehaviour::TooLarge { .. }),
        _ => false,
    }
}

/// A notification's params without the name of its subscription. `None`: there is none in them.
pub(super) fn without_id(params: &Json) -> Option<Json> {
    let meta = params.member("_meta")?;
    meta.member(meta::SUBSCRIPTION_ID)?;
    let meta = Edit::new().remove(meta::SUBSCRIPTION_ID).apply(Some(&meta)).ok()?;
    let edit =
        if meta.as_str() == "{}" { Edit::new().remove("_meta") } else { Edit::new().set("_meta", &meta) };
    edit.apply(Some(params)).ok()
}

fn take_back(wanted: &mut BTreeMap<String, usize>, name: &str) -> bool {
    let Some(count) = wanted.get_mut(name) else { return false };
    *count -= 1;
    let last = *count == 0;
    if last {
        wanted.remove(name);
    }
    last
}

/// For what is on its way by a subscription that was replaced.
const LINGER: Duration = Duration::from_secs(1);
/// For the acknowledgement, which is the first thing that a server says.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// Between attempts to open what was cut.
const FLOOR: Duration = Duration::from_millis(250);
const CAP: Duration = Duration::from_secs(30);
/// A subscription that lasted this long was a good one.
const HELD: Duration = Duration::from_secs(5);
