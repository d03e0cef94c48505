//! [`DaemonPulse`]: whether a daemon that listens answers at all. One that was stopped, or that hangs, does not, and
//! nothing else would tell its fronts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Asks the daemon at a socket for a sign of life.
pub(in crate::commands) struct DaemonPulse {
    socket: PathBuf,
    /// How long the daemon may take to answer.
    answer_timeout: Duration,
    /// When it was asked last, and whether it was found to hang.
    last: Mutex<Option<(Instant, bool)>>,
}

impl DaemonPulse {
    pub(in crate::commands) fn new(socket: PathBuf) -> Self {
        Self { socket, answer_timeout: ANSWER_TIMEOUT, last: Mutex::default() }
    }

    /// Whether the daemon is there and does not answer for [`ANSWER_TIMEOUT`]. All who ask at the same time share one
    /// question.
    pub(in crate::commands) async fn is_hung(self: Arc<Self>) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, is_hung)) = *last
            && at.elapsed() < SHARED_TIME
        {
            return is_hung;
        }
        let is_hung = match timeout(self.answer_timeout, self.ask()).await {
            Ok(Ok(())) => false,
            // So many connections wait that it has accepted none for long.
            Ok(Err(error)) => error.kind() == io::ErrorKind::WouldBlock,
            Err(_) => true,
        };
        *last = Some((Instant::now(), is_hung));
        is_hung
    }

    /// Waits for any byte of the daemon, or for the end of the connection. Fails if there is no daemon.
    async fn ask(&self) -> io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        stream.write_all(b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        stream.read(&mut [0]).await.map(drop)
    }
}

/// How long the daemon may take to answer. It answers within milliseconds unless the machine is overloaded.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer holds for others who ask.
const SHARED_TIME: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    fn pulse(socket: &Path, answer_timeout: Duration) -> Arc<DaemonPulse> {
        Arc::new(DaemonPulse { answer_timeout, ..DaemonPulse::new(socket.to_owned()) })
    }

    #[tokio::test]
    async fn a_daemon_hangs_that_listens_and_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        assert!(!pulse(&socket, Duration::ZERO).is_hung().await, "nobody listens");
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let silent = pulse(&socket, Duration::from_millis(50));
        let (one, other) = tokio::join!(Arc::clone(&silent).is_hung(), Arc::clone(&silent).is_hung());
        assert!(one && other);
        drop(listener.accept().unwrap());
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "one question for both");
    }

    #[tokio::test]
    async fn a_daemon_that_closes_the_connection_does_not_hang() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let closing = tokio::task::spawn_blocking(move || drop(listener.accept()));
        assert!(!pulse(&socket, Duration::from_secs(30)).is_hung().await);
        closing.await.unwrap();
    }
}
