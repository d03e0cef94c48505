//! Handles the signals that ask the process to end. A signal that was taken over once never ends
//! the process by default action again, so it is watched also when no command waits for it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::exit::Exit;

/// Waits for Ctrl-C, and on Unix for the other signals that end a process.
///
/// When the last one is dropped, a background task takes over: the next signal ends the process,
/// even while output blocks on a reader that does not read.
pub(crate) struct Interrupt {
    signals: Option<Signals>,
}

/// The one signal watch of the process.
static SIGNAL_WATCH: Mutex<SignalWatch> = Mutex::new(SignalWatch { listeners: 0, task: None });

struct SignalWatch {
    /// How many `Interrupt`s exist. While there is one, the background task does not run.
    listeners: usize,
    task: Option<AbortHandle>,
}

impl Interrupt {
    /// Takes the signals over. From now on they no longer end the process by default.
    pub(crate) fn listen() -> Self {
        let mut watch = SIGNAL_WATCH.lock();
        watch.listeners += 1;
        if let Some(task) = watch.task.take() {
            task.abort();
        }
        Self { signals: Some(Signals::take()) }
    }

    /// Waits for the next signal. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Exit {
        match &mut self.signals {
            Some(signals) => signals.next().await,
            None => std::future::pending().await,
        }
    }

    /// Hears SIGHUP for a purpose that does not end the process. Where it cannot be told whether the
    /// signal was ignored at the start, as under `nohup`, it never means that the terminal is gone.
    pub(crate) fn hear_hangups(&mut self) -> ControllingTerminal {
        match &mut self.signals {
            Some(signals) if signals.hears_hangups() => ControllingTerminal::find(),
            Some(signals) => {
                signals.hear_hangups_if_unsure();
                ControllingTerminal { was_there: false }
            }
            None => ControllingTerminal { was_there: false },
        }
    }

    /// Ends the process with `exit` after [`END_GRACE`], unless it has ended by then: writing its
    /// output may block on a reader that does not read.
    pub(crate) fn end_process_soon(mut self, exit: Exit) {
        self.signals = None;
        tokio::spawn(async move {
            tokio::time::sleep(END_GRACE).await;
            std::process::exit(exit.code().into());
        });
    }

    /// Ignores signals for the short rest of the process.
    pub(crate) fn ignore(mut self) {
        self.signals = None;
    }
}

/// How long the process has to end by itself. After that, the watchdog ends servers that are left.
const END_GRACE: Duration = Duration::from_millis(500);

impl Drop for Interrupt {
    fn drop(&mut self) {
        let mut watch = SIGNAL_WATCH.lock();
        watch.listeners -= 1;
        // The task takes over the same streams, so no signal is handled twice.
        let (Some(mut signals), 0, Ok(runtime)) =
            (self.signals.take(), watch.listeners, tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let task = runtime.spawn(async move {
            let exit = signals.next().await;
            // Nothing is open any more: servers are closed, and no dialog is shown.
            std::process::exit(exit.code().into());
        });
        watch.task = Some(task.abort_handle());
    }
}

/// Keeps SIGHUP from ending the process until it is heard, for a command that reads its settings again
/// when it comes. One that comes before is lost, since the settings are about to be read.
///
/// It needs no runtime, so that it can be called first: to start the threads of one takes longer than all that is done
/// here.
pub(crate) fn survive_hangups() {
    #[cfg(unix)]
    if !unix::must_stay_ignored(Exit::HungUp)
        && let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build()
    {
        use tokio::signal::unix::{SignalKind, signal};
        let _context = runtime.enter();
        // The handler stays when the stream and the runtime are dropped. Without one the default action stays.
        let _ = signal(SignalKind::hangup());
    }
}

/// Tells a SIGHUP of a terminal that is gone from one that somebody sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControllingTerminal {
    was_there: bool,
}

impl ControllingTerminal {
    /// Looks whether there is a terminal now.
    pub(crate) fn find() -> Self {
        Self { was_there: Self::is_there() }
    }

    /// Whether there was a terminal, and is none any more.
    pub(crate) fn is_gone(self) -> bool {
        self.was_there && !Self::is_there()
    }

    fn is_there() -> bool {
        // This device can be opened only by processes that have a terminal.
        cfg!(unix) && std::fs::File::open("/dev/tty").is_ok()
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
        let heard = all.into_iter().filter(|(_, exit)| !unix::must_stay_ignored(*exit));
        // A signal that cannot be taken over keeps its default action, which ends the process.
        Self(heard.filter_map(|(kind, exit)| Some((signal(kind).ok()?, exit))).collect())
    }

    fn hears_hangups(&self) -> bool {
        self.0.iter().any(|(_, exit)| *exit == Exit::HungUp)
    }

    /// Hears SIGHUP unless it is known to have been ignored at the start.
    fn hear_hangups_if_unsure(&mut self) {
        use tokio::signal::unix::{SignalKind, signal};
        if unix::process_status().is_err()
            && let Ok(hangups) = signal(SignalKind::hangup())
        {
            self.0.push((hangups, Exit::HungUp));
        }
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

    /// Returns whether a signal that was ignored at the start has to stay ignored, as under
    /// `nohup`.
    pub(super) fn must_stay_ignored(exit: Exit) -> bool {
        let number = match exit {
            Exit::HungUp => 1,
            Exit::Quit => 3,
            _ => return false,
        };
        match process_status() {
            Ok(status) => is_ignored(&status, number),
            // This system cannot tell. Without a terminal, as under `nohup`, there is nothing to
            // restore.
            Err(_) => !(io::stdin().is_terminal() && io::stderr().is_terminal()),
        }
    }

    /// Returns what the system says about this process, where it does.
    pub(super) fn process_status() -> io::Result<String> {
        std::fs::read_to_string("/proc/self/status")
    }

    /// Parses the mask of ignored signals, in which signal 1 is the lowest bit.
    fn is_ignored(status: &str, number: u32) -> bool {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // If the mask cannot be read, the system's default is the safe choice.
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

    fn hears_hangups(&self) -> bool {
        false
    }

    fn hear_hangups_if_unsure(&mut self) {}

    async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
