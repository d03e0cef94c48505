//! What a modern server is asked to tell unasked: one `subscriptions/listen`, kept open (group SB).
//!
//! Whoever wants to hear of something says so in [`Wants`]; one task per link sees to it that the server is
//! listened to for just that. To want more or less opens a new subscription before the old one is left, so that
//! nothing is missed between them. One that was cut is opened again, and what may have been missed meanwhile is
//! looked at. One that the server ended in good order, or refused, is not asked for again until somebody wants
//! something new: then lists are as old as the server says they may be.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bowline_proto::backoff::Backoff;
use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault, Misbehaviour};
use bowline_proto::revision::Era;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, Progress};
use bowline_proto::wire::view::{Acknowledged, Capabilities, Feature, subscription_id};
use bowline_proto::wire::{Json, RpcError, method};
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
    granted: watch::Sender<Option<Granted>>,
    /// By the id of the request. There are two while one replaces the other.
    open: Mutex<HashMap<u64, Open>>,
}

/// What somebody wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wants {
    lists: bool,
    /// How many want to hear of each resource.
    uris: BTreeMap<String, usize>,
    tasks: BTreeMap<String, usize>,
}

/// What came of asking.
#[derive(Clone, Debug)]
struct Granted {
    asked: Filter,
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
    /// The server does not want it.
    Refused(String),
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
            Err(Failure::Server(error)) => refused(&error),
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
    fn of(wants: &Wants, offered: &Capabilities) -> Self {
        let says =
            |feature: Option<Feature>| wants.lists && feature.is_some_and(|feature| feature.list_changed);
        let subscribe = offered.resources.is_some_and(|resources| resources.subscribe);
        Self {
            tools_list_changed: says(offered.tools),
            prompts_list_changed: says(offered.prompts),
            resources_list_changed: says(offered.resources),
            resource_subscriptions: wants.uris.keys().filter(|_| subscribe).cloned().collect(),
            task_ids: wants.tasks.keys().cloned().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn params(&self) -> Json {
        let filter = Json::of(self).expect("flags and strings are JSON");
        Edit::new().set("notifications", &filter).apply(None).expect("an object is JSON")
    }
}

impl Shared {
    /// Somebody listens: lists that change are to be told.
    pub(super) fn want_lists(&self) {
        self.subscriptions.want(|wants| wants.lists = true);
    }

    /// Somebody wants to hear of a resource. Taken back with [`Shared::unwant_resource`].
    pub(crate) fn want_resource(&self, uri: &str) {
        self.subscriptions.want(|wants| *wants.uris.entry(uri.to_owned()).or_default() += 1);
    }

    /// Says whether that was the last who wanted to hear of it.
    pub(crate) fn unwant_resource(&self, uri: &str) -> bool {
        let mut last = false;
        self.subscriptions.want(|wants| last = take_back(&mut wants.uris, uri));
        last
    }

    /// TN-08: the same for a task.
    pub(crate) fn want_task(&self, id: &str) {
        self.subscriptions.want(|wants| *wants.tasks.entry(id.to_owned()).or_default() += 1);
    }

    pub(crate) fn unwant_task(&self, id: &str) {
        self.subscriptions.want(|wants| {
            take_back(&mut wants.tasks, id);
        });
    }

    /// Waits until a modern server has said whether it will tell of a resource (SB-02). `Err`: why not.
    pub(crate) async fn granted(&self, uri: &str, patience: Duration) -> Result<(), String> {
        let mut granted = self.subscriptions.granted.subscribe();
        let asked = |granted: &Option<Granted>| {
            granted.as_ref().is_some_and(|granted| granted.asked.resource_subscriptions.contains(uri))
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

    /// Keeps the server listened to for what is wanted, for as long as the link lasts.
    pub(super) async fn supervise(self: Arc<Self>, live: Arc<Live>) {
        let mut wants = self.subscriptions.wants.subscribe();
        let mut backoff = Backoff::new(FLOOR, CAP, fastrand::u64(..));
        let mut trouble: Option<Instant> = None;
        // The subscription that is to be replaced.
        let mut old: Option<Listening> = None;
        loop {
            let filter = Filter::of(&wants.borrow_and_update(), &live.peer.capabilities);
            if filter.is_empty() {
                drop(old.take());
                self.subscriptions.granted.send_replace(None);
                if wants.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let (sender, acknowledged) = oneshot::channel();
            let mut new: Listening =
                Box::pin(Arc::clone(&self).listen(Arc::clone(&live), filter.clone(), sender));
            let ended = match acknowledge(&mut new, &mut old, acknowledged).await {
                Ok(answer) => {
                    // On a pipe all that it had to say came before the acknowledgement.
                    let replaced = old.take().filter(|_| live.wire.is_http());
                    let answer = answer.unwrap_or_else(|| filter.granted());
                    let granted = Granted { asked: filter.clone(), answer: Ok(answer) };
                    self.subscriptions.granted.send_replace(Some(granted));
                    let opened = Instant::now();
                    if trouble.is_some() {
                        self.after_gap(&live);
                    }
                    // SB-06: nobody asks how long it is quiet.
                    tokio::select! {
                        ended = &mut new => {
                            if opened.elapsed() > HELD {
                                trouble = None;
                            }
                            ended
                        }
                        () = other_filter(&mut wants, &filter, &live.peer.capabilities) => {
                            // Whoever wants something now waits for what comes next: this one is about to go.
                            self.subscriptions.granted.send_replace(None);
                            old = Some(new);
                            continue;
                        }
                        never = hear_out(replaced) => match never {},
                    }
                }
                Err(ended) => ended,
            };
            match ended {
                // SB-05: nothing is remembered, so it is asked again.
                Ending::Cut(fault) => {
                    let since = *trouble.get_or_insert_with(Instant::now);
                    let wait = backoff.wait_after(since.elapsed());
                    tracing::debug!(server = %self.name, %fault, ?wait, "the subscription was cut; it is opened again");
                    sleep(wait).await;
                    continue;
                }
                Ending::Over => tracing::debug!(server = %self.name, "the server ended the subscription"),
                Ending::Refused(why) => {
                    tracing::info!(server = %self.name, why, "the server does not tell of changes");
                    let granted = Granted { asked: filter.clone(), answer: Err(why) };
                    self.subscriptions.granted.send_replace(Some(granted));
                }
            }
            other_filter(&mut wants, &filter, &live.peer.capabilities).await;
        }
    }

    /// One subscription, from the request to its end. Dropped, it is cancelled in the way of the link.
    async fn listen(
        self: Arc<Self>,
        live: Arc<Live>,
        filter: Filter,
        acknowledged: oneshot::Sender<Acknowledged>,
    ) -> Ending {
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
                Ok(()) => ending.await.unwrap_or_else(|_| Ending::Cut(Fault::new(Cause::Closed))),
                Err(fault) => Ending::Cut(fault),
            },
            Wire::Http { link, headers } => {
                let headers = self.call_headers(&live, headers, method::LISTEN, Some(&params));
                let exchange = Exchange { shared: &self, link, wire: &live.wire, id, era: Era::Modern };
                tokio::select! {
                    biased;
                    Ok(ending) = ending => ending,
                    reply = exchange.run(frame.body(), &headers) => match reply {
                        Reply::Result(_) => Ending::Over,
                        Reply::Error { error, .. } => refused(&error),
                        Reply::Fault(fault) if is_refusal(&fault) => Ending::Refused(fault.to_string()),
                        Reply::Fault(fault) => Ending::Cut(fault),
                        Reply::Accepted | Reply::Silence => {
                            Ending::Refused("the server took the request and opened no stream".to_owned())
                        }
                    },
                }
            }
            Wire::EventStream { .. } => Ending::Refused("a modern connection has no such stream".to_owned()),
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

/// Waits for the first word of a new subscription, while the old one goes on. A server that never acknowledges
/// is taken at its silence. `Err`: it ended instead.
async fn acknowledge(
    new: &mut Listening,
    old: &mut Option<Listening>,
    acknowledged: oneshot::Receiver<Acknowledged>,
) -> Result<Option<Acknowledged>, Ending> {
    let word = timeout(FIRST_WORD, acknowledged);
    tokio::pin!(word);
    loop {
        tokio::select! {
            biased;
            ended = &mut *new => return Err(ended),
            word = &mut word => return Ok(word.ok().and_then(Result::ok)),
            () = async {
                match old.as_mut() {
                    Some(old) => drop(old.await),
                    None => std::future::pending().await,
                }
            } => drop(old.take()),
        }
    }
}

/// What was said before the new subscription began may still be on its way by the old one, which is heard for a
/// moment longer. What both of them say is heard twice, which costs no more than one look too many.
async fn hear_out(replaced: Option<Listening>) -> Infallible {
    if let Some(replaced) = replaced {
        let _ = timeout(LINGER, replaced).await;
    }
    std::future::pending().await
}

/// Waits until something else is wanted that is offered.
async fn other_filter(wants: &mut watch::Receiver<Wants>, asked: &Filter, offered: &Capabilities) {
    while wants.changed().await.is_ok() {
        if Filter::of(&wants.borrow_and_update(), offered) != *asked {
            // Seen here, but for the caller to take up.
            wants.mark_changed();
            return;
        }
    }
    std::future::pending::<()>().await;
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

fn refused(error: &RpcError) -> Ending {
    Ending::Refused(error.to_string())
}

/// A status that says no, and would again.
fn is_refusal(fault: &Fault) -> bool {
    match &fault.cause {
        Cause::Status { code, .. } => (400..500).contains(code) && !matches!(code, 408 | 425 | 429),
        Cause::LoginRequired { .. } => true,
        Cause::Protocol(misbehaviour) => *misbehaviour != Misbehaviour::NoAnswer,
        _ => false,
    }
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
