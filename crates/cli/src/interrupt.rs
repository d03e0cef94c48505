//! Owns the signals that ask us to leave, also after whoever waited for them is done: what was taken over once
//! never ends the process by itself again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::exit::Exit;

/// Waits for Ctrl-C, and for the other signals that end a process where there are any.
///
/// Dropped, it leaves a watch behind: while output is written to somebody who does not read it, the next signal
/// ends the process.
pub(crate) struct Interrupt {
    signals: Option<Signals>,
}

/// One for the process, as there is one process to end.
static WATCH: Mutex<Watch> = Mutex::new(Watch { listeners: 0, task: None });

struct Watch {
    /// Those that wait for a signal themselves. As long as there is one, nobody else acts on it.
    listeners: usize,
    task: Option<AbortHandle>,
}

impl Interrupt {
    /// Takes the signals over. From now on they no longer end the process by themselves.
    pub(crate) fn listen() -> Self {
        let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
        watch.listeners += 1;
        if let Some(task) = watch.task.take() {
            task.abort();
        }
        Self { signals: Some(Signals::take()) }
    }

    /// The next one. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Exit {
        match &mut self.signals {
            Some(signals) => signals.next().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the process with `exit`, unless it ends by itself within a moment: its output may be for somebody who does not
    /// read it.
    pub(crate) fn end_process_soon(mut self, exit: Exit) {
        self.signals = None;
        tokio::spawn(async move {
            tokio::time::sleep(END_GRACE).await;
            std::process::exit(exit.code().into());
        });
    }

    /// Lets signals have no effect for the rest of the process, which is short.
    pub(crate) fn ignore(mut self) {
        self.signals = None;
    }
}

/// How long the process has to end by itself. The watchdog ends the servers that are still there after it.
const END_GRACE: Duration = Duration::from_millis(500);

impl Drop for Interrupt {
    fn drop(&mut self) {
        let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
        watch.listeners -= 1;
        // The same signals go on: what has been heard is not heard again.
        let (Some(mut signals), 0, Ok(runtime)) =
            (self.signals.take(), watch.listeners, tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let task = runtime.spawn(async move {
            let exit = signals.next().await;
            // Nothing is open any more: servers are closed, and no question is on the screen.
            std::process::exit(exit.code().into());
        });
        watch.task = Some(task.abort_handle());
    }
}

#[cfg(unix)]
struct Signals(Vec<(tokio::signal::unix::Signal, Exit)>);

#[cfg(unix)]
impl Signals {
    fn take() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let all = [
            (SignalKind::interrupt(), Exit::Interrupted),
            (SignalKind::terminate(), Exit::Terminated),
            (SignalKind::hangup(), Exit::HungUp),
            (SignalKind::quit(), Exit::Quit),
        ];
        let heard = all.into_iter().filter(|(_, exit)| !unix::is_to_be_left_alone(*exit));
        // One that cannot be taken over keeps its default: the process ends.
        Self(heard.filter_map(|(kind, exit)| Some((signal(kind).ok()?, exit))).collect())
    }

    async fn next(&mut self) -> Exit {
        use std::task::Poll;
        std::future::poll_fn(|context| {
            for (signal, exit) in &mut self.0 {
                if let Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return Poll::Ready(*exit);
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(unix)]
mod unix {
    use std::io::{self, IsTerminal as _};

    use super::Exit;

    /// `nohup` means that the end of the terminal is none of ours: a signal that is ignored stays so.
    pub(super) fn is_to_be_left_alone(exit: Exit) -> bool {
        let number = match exit {
            Exit::HungUp => 1,
            Exit::Quit => 3,
            _ => return false,
        };
        match std::fs::read_to_string("/proc/self/status") {
            Ok(status) => is_ignored(&status, number),
            // Nobody tells here. What must be put back is a terminal, and `nohup` takes that away.
            Err(_) => !(io::stdin().is_terminal() && io::stderr().is_terminal()),
        }
    }

    /// Reads the mask of ignored signals, in which the first signal is the lowest bit.
    fn is_ignored(status: &str, number: u32) -> bool {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // Where it cannot be read, the careful choice is the system's own.
        mask.is_none_or(|mask| mask & (1 << (number - 1)) != 0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn ignored_signals_are_found() {
            let status = "Name:\tx\nSigBlk:\tffff\nSigIgn:\t0000000000001001\nSigCgt:\t4\n";
            assert!(is_ignored(status, 1));
            assert!(!is_ignored(status, 3));
            assert!(is_ignored("Name:\tx\n", 3));
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn take() -> Self {
        Self
    }

    async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
