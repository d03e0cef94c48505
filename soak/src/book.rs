//! The books: what each call was said to have come to, beside what the server did.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bowline::fault::{Cause, Execution, Fault};
use bowline::{Error, ErrorKind};

/// What a caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Nothing yet.
    Open,
    Succeeded,
    /// It failed, and the server did not act.
    NotExecuted,
    /// It failed, and the server may have acted.
    Unknown,
    /// The caller left before the end.
    Left,
}

/// One world's books.
pub(crate) struct Book {
    pages: Mutex<Pages>,
    /// Under which name things are told as they happen, if they are.
    teller: Option<&'static str>,
    begun: Instant,
}

/// A byte or two per call, so that a long soak does not look like a leak.
#[derive(Default)]
struct Pages {
    /// By the number of the call: what the caller was told, and how often the server acted.
    acts: Vec<(View, u8)>,
    tally: Tally,
    violations: Vec<String>,
}

/// The sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Calls that ended, those that only read included.
    pub(crate) calls: u64,
    pub(crate) succeeded: u64,
    /// Calls whose caller left.
    pub(crate) left: u64,
    /// Failures of calls that may be repeated.
    pub(crate) harmless_failed: u64,
    pub(crate) harmless: u64,
    /// By cause, and by what is known of the execution.
    pub(crate) failed: BTreeMap<(String, &'static str), Failed>,
    pub(crate) slowest: Duration,
}

/// How many calls failed for one reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failed {
    pub(crate) all: u64,
    /// Those that may be repeated.
    pub(crate) harmless: u64,
}

impl Book {
    pub(crate) fn new(teller: Option<&'static str>) -> Self {
        Self { pages: Mutex::default(), teller, begun: Instant::now() }
    }

    /// Tells what happens now, if anybody wants to know.
    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if let Some(name) = self.teller {
            eprintln!("{:9.3} {name}: {}", self.begun.elapsed().as_secs_f64(), what());
        }
    }

    /// A new call that must not run twice.
    pub(crate) fn act(&self) -> usize {
        let mut pages = self.pages();
        pages.acts.push((View::Open, 0));
        pages.acts.len() - 1
    }

    /// The server acts on that call.
    pub(crate) fn acted(&self, number: u64) {
        let mut pages = self.pages();
        let entry = usize::try_from(number).ok().and_then(|number| pages.acts.get_mut(number));
        match entry {
            Some((_, times)) => *times = times.saturating_add(1),
            None => {
                pages.violations.push(format!("the server was asked for call {number}, which nobody made"));
            }
        }
    }

    /// A call that must not run twice has ended.
    pub(crate) fn close_act(&self, number: usize, outcome: &Result<(), Error>, took: Duration) {
        let view = match outcome {
            Ok(()) => View::Succeeded,
            Err(error) => match error.execution() {
                Execution::NotExecuted => View::NotExecuted,
                Execution::Unknown => View::Unknown,
            },
        };
        let mut pages = self.pages();
        pages.acts[number].0 = view;
        pages.tally.count(outcome, took, false);
    }

    /// The caller of that call has left.
    pub(crate) fn leave_act(&self, number: usize) {
        let mut pages = self.pages();
        pages.acts[number].0 = View::Left;
        pages.tally.left += 1;
    }

    /// A call that may be repeated has ended.
    pub(crate) fn harmless(&self, outcome: &Result<(), Error>, took: Duration) {
        let mut pages = self.pages();
        pages.tally.count(outcome, took, true);
    }

    pub(crate) fn violation(&self, what: String) {
        self.pages().violations.push(what);
    }

    /// Closes the books: nothing can be executed any more. Gives the sums and everything that is wrong.
    pub(crate) fn audit(&self) -> (Tally, Vec<String>) {
        let pages = self.pages();
        let mut violations = pages.violations.clone();
        for (number, (view, times)) in pages.acts.iter().enumerate() {
            let right = match view {
                View::Open => false,
                View::Succeeded => *times == 1,
                View::NotExecuted => *times == 0,
                View::Unknown | View::Left => *times <= 1,
            };
            if !right {
                violations.push(format!("call {number}: the caller was told {view:?}, it ran {times} times"));
            }
        }
        (pages.tally.clone(), violations)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn count(&mut self, outcome: &Result<(), Error>, took: Duration, harmless: bool) {
        self.calls += 1;
        self.harmless += u64::from(harmless);
        self.slowest = self.slowest.max(took);
        match outcome {
            Ok(()) => self.succeeded += 1,
            Err(error) => {
                self.harmless_failed += u64::from(harmless);
                let failed = self.failed.entry(cause(error)).or_default();
                failed.all += 1;
                failed.harmless += u64::from(harmless);
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.succeeded += other.succeeded;
        self.left += other.left;
        self.harmless += other.harmless;
        self.harmless_failed += other.harmless_failed;
        self.slowest = self.slowest.max(other.slowest);
        for (cause, failed) in &other.failed {
            let sum = self.failed.entry(cause.clone()).or_default();
            sum.all += failed.all;
            sum.harmless += failed.harmless;
        }
    }
}

/// A failure as one of few kinds.
fn cause(error: &Error) -> (String, &'static str) {
    let cause = match error.kind() {
        ErrorKind::Server(error) => format!("the server's error {}", error.code),
        ErrorKind::Fault(Fault { cause: Cause::Exited(_), .. }) => "the process ended".to_owned(),
        ErrorKind::Fault(fault) => fault.cause.to_string(),
        other => format!("{other:?}"),
    };
    let execution = match error.execution() {
        Execution::NotExecuted => "not executed",
        Execution::Unknown => "outcome unknown",
    };
    (cause, execution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_that_disagree_are_found() {
        let took = Duration::from_millis(1);
        let book = Book::new(None);
        let right = book.act();
        book.acted(right as u64);
        book.close_act(right, &Ok(()), took);
        let left = book.act();
        book.leave_act(left);
        assert_eq!(book.audit().1, Vec::<String>::new());

        let twice = book.act();
        book.acted(twice as u64);
        book.acted(twice as u64);
        book.close_act(twice, &Ok(()), took);
        let never = book.act();
        book.close_act(never, &Ok(()), took);
        book.act();
        book.acted(99);
        let (tally, violations) = book.audit();
        assert_eq!(violations.len(), 4, "{violations:?}");
        assert_eq!((tally.calls, tally.succeeded, tally.left), (3, 3, 1));
    }
}
