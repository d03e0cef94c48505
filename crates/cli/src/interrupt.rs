//! Owns the signals that ask us to leave.

use crate::exit::Exit;

/// Waits for Ctrl-C, or for SIGTERM where there is one.
pub(crate) struct Interrupt {
    #[cfg(unix)]
    signals: Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>,
}

impl Interrupt {
    /// Takes the signals over. From now on they no longer end the process by themselves.
    #[cfg(unix)]
    pub(crate) fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let both =
            signal(SignalKind::interrupt()).and_then(|int| Ok((int, signal(SignalKind::terminate())?)));
        // A system without signals to take over keeps its default: the process ends.
        Self { signals: both.ok() }
    }

    /// Takes the signal over. From now on it no longer ends the process by itself.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> Self {
        Self {}
    }

    /// The next one. Dropping the future loses none.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> Exit {
        let Some((int, term)) = &mut self.signals else { return std::future::pending().await };
        tokio::select! {
            _ = int.recv() => Exit::Interrupted,
            _ = term.recv() => Exit::Terminated,
        }
    }

    /// The next one. Dropping the future loses none.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
