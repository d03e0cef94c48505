//! Models of the wake filter between a connection and the task that drives it: no wake-up is lost.
//!
//! In each model another thread writes an event and then wakes the filter's waker, once. The write
//! is relaxed, so only the filter itself can make it visible to the poll that has to see it. A lost
//! wake-up leaves the task waiting for ever, which loom reports as a deadlock.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::model::Builder;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;

use crate::wake_filter::WakeFilter;

/// An event before, during or after a poll reaches the task.
pub fn wake_around_a_poll() {
    explore(|| {
        let (filter, event, task) = (WakeFilter::default(), Event::new(), Task::new());
        let waking = event.happen_on(filtered_waker(&filter, &task));
        task.run(&filter, |_| event.has_happened());
        waking.join().unwrap();
    });
}

/// Two events from two threads: the second may come while the task polls again because of the
/// first.
pub fn two_wakes_during_one_poll() {
    explore_bounded(|| {
        let (filter, task) = (WakeFilter::default(), Task::new());
        let events = [Event::new(), Event::new()];
        let waker = filtered_waker(&filter, &task);
        let waking = events.each_ref().map(|event| event.happen_on(waker.clone()));
        task.run(&filter, |_| events.iter().all(Event::has_happened));
        for thread in waking {
            thread.join().unwrap();
        }
    });
}

/// An event comes while the task wakes itself at each poll, until it has to yield.
pub fn wake_while_looks_run_out() {
    explore(|| {
        let (filter, event, task) = (WakeFilter::default(), Event::new(), Task::new());
        let waking = event.happen_on(filtered_waker(&filter, &task));
        let mut own = OWN_WAKES;
        task.run(&filter, |cx| {
            if own > 0 {
                own -= 1;
                cx.waker().wake_by_ref();
            }
            event.has_happened()
        });
        waking.join().unwrap();
    });
}

/// An event comes while the connection moves from one task to another, with no task registered in
/// between. The first task need not see it; the second must.
pub fn handover_reaches_the_next_task() {
    explore(|| {
        let (filter, event) = (WakeFilter::default(), Event::new());
        let (first, second) = (Task::new(), Task::new());
        let waking = event.happen_on(filtered_waker(&filter, &first));
        filter.detach();
        second.run(&filter, |_| event.has_happened());
        waking.join().unwrap();
    });
}

/// An event comes while a connection becomes idle: either that sees it, or the watcher of idle
/// connections is woken.
pub fn look_or_wake_after_rest() {
    explore(|| {
        let (filter, event) = (WakeFilter::default(), Event::new());
        let (first, watcher) = (Task::new(), Task::new());
        let waking = event.happen_on(filtered_waker(&filter, &first));
        loop {
            let mut seen = false;
            filter.settle(&watcher.waker, |_| seen = event.has_happened());
            if seen {
                break;
            }
            watcher.inner.woken.wait();
        }
        waking.join().unwrap();
    });
}

/// Something that another thread does once, and that a poll checks for.
struct Event {
    happened: Arc<AtomicBool>,
}

impl Event {
    fn new() -> Self {
        Self { happened: Arc::new(AtomicBool::new(false)) }
    }

    /// Starts the thread that makes it happen, and then wakes `waker`.
    fn happen_on(&self, waker: Waker) -> thread::JoinHandle<()> {
        let happened = Arc::clone(&self.happened);
        thread::spawn(move || {
            happened.store(true, Relaxed);
            waker.wake();
        })
    }

    fn has_happened(&self) -> bool {
        self.happened.load(Relaxed)
    }
}

/// A task as an executor runs it: polled when it was woken.
struct Task {
    inner: Arc<TaskInner>,
    waker: Waker,
}

struct TaskInner {
    woken: Notify,
}

impl Task {
    fn new() -> Self {
        let inner = Arc::new(TaskInner { woken: Notify::new() });
        Self { waker: Waker::from(Arc::clone(&inner)), inner }
    }

    /// Polls through the filter until `look` returns true.
    fn run(&self, filter: &WakeFilter, mut look: impl FnMut(&mut Context<'_>) -> bool) {
        let cx = Context::from_waker(&self.waker);
        while filter.poll(&cx, |cx| if look(cx) { Poll::Ready(()) } else { Poll::Pending }).is_pending() {
            self.inner.woken.wait();
        }
    }
}

impl Wake for TaskInner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.notify();
    }
}

/// Returns the waker that a socket registers when `task` polls it and there is nothing to read.
fn filtered_waker(filter: &WakeFilter, task: &Task) -> Waker {
    let mut waker = None;
    let polled: Poll<()> = filter.poll(&Context::from_waker(&task.waker), |cx| {
        waker = Some(cx.waker().clone());
        Poll::Pending
    });
    assert!(polled.is_pending());
    waker.expect("the filter polls at least once")
}

/// Runs a model in every interleaving.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    Builder::new().check(model);
}

/// Runs a model in every interleaving with at most three preemptions: with three threads, all
/// interleavings take minutes.
fn explore_bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// One more than the filter polls before it yields.
const OWN_WAKES: usize = 17;
