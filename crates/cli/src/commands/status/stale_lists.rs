//! [`StaleLists`]: which lists the daemons of `bowline serve` give to hosts from the catalog, since a server cannot be
//! asked. Each daemon says so on its socket.

use std::collections::HashMap;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::rows::CurrentTime;
use crate::print::clock;

/// The lists of one server that come from the catalog of one daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StaleLists {
    /// `tools`, `prompts`, `resources`, `templates`, as far as the server is known to have them. None if nothing is known
    /// of it.
    lists: Vec<String>,
    since: SystemTime,
    reason: String,
    /// The id of the process of the daemon, if it is known.
    daemon: Option<u32>,
}

/// The stale lists of servers, by their names.
pub(super) type ServerStaleLists = HashMap<String, Vec<StaleLists>>;

impl StaleLists {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "lists": self.lists,
            "since": clock::utc(self.since),
            "reason": self.reason,
            "daemon": self.daemon,
        })
    }

    /// Returns a sentence about what hosts get.
    pub(super) fn text(&self, now: CurrentTime) -> String {
        let what = match &*self.lists {
            [] => "nothing of it".to_owned(),
            lists => format!("{} from the catalog", lists.join(", ")),
        };
        let span = clock::format_span(clock::since(now.clock(), self.since));
        format!("hosts get {what} for {span}: {}", self.reason)
    }
}

#[cfg(unix)]
pub(super) use on_unix::read;

/// No daemon runs here.
#[cfg(not(unix))]
pub(super) fn read(_: &crate::settings::Settings) -> std::future::Ready<ServerStaleLists> {
    std::future::ready(HashMap::new())
}

#[cfg(unix)]
mod on_unix {
    use std::io;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use serde::Deserialize;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;
    use tokio::time::timeout;

    use super::{ServerStaleLists, StaleLists};
    use crate::commands::serve::find_daemons;
    use crate::settings::Settings;

    /// What a daemon says of itself. Later versions may say more.
    #[derive(Debug, Deserialize)]
    pub(super) struct StatusReport {
        stale_lists: Vec<ReportedLists>,
    }

    #[derive(Debug, Deserialize)]
    struct ReportedLists {
        server: String,
        lists: Vec<String>,
        /// Milliseconds since the epoch.
        since_ms: u64,
        reason: String,
    }

    /// Asks all daemons of this user that run, at the same time. One that does not answer in time, or that is of a version
    /// that does not know the question, says nothing.
    pub(in crate::commands::status) async fn read(settings: &Settings) -> ServerStaleLists {
        let asking: Vec<_> = find_daemons(settings)
            .into_iter()
            .map(|found| {
                let report = async move { timeout(ANSWER_TIMEOUT, ask(&found.socket)).await };
                (found.pid, tokio::spawn(report))
            })
            .collect();
        let mut all = ServerStaleLists::new();
        for (daemon, report) in asking {
            match report.await {
                Ok(Ok(Ok(report))) => add(&mut all, daemon, report),
                outcome => tracing::debug!(?outcome, "a daemon does not say which lists are stale"),
            }
        }
        all
    }

    async fn ask(socket: &Path) -> io::Result<StatusReport> {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut response = Vec::new();
        stream.take(MAX_RESPONSE_LENGTH).read_to_end(&mut response).await?;
        parse(&response).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    pub(super) fn parse(response: &[u8]) -> Option<StatusReport> {
        let end = response.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END)?;
        // A daemon of an earlier version has nothing at that path.
        if !response.starts_with(b"HTTP/1.1 200 ") {
            return None;
        }
        serde_json::from_slice(&response[end + HEAD_END.len()..]).ok()
    }

    pub(super) fn add(all: &mut ServerStaleLists, daemon: Option<u32>, report: StatusReport) {
        for ReportedLists { server, lists, since_ms, reason } in report.stale_lists {
            let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since_ms));
            let since = since.unwrap_or(SystemTime::UNIX_EPOCH);
            all.entry(server).or_default().push(StaleLists { lists, since, reason, daemon });
        }
    }

    /// How long a daemon may take to answer. It answers within milliseconds.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
    const MAX_RESPONSE_LENGTH: u64 = 1024 * 1024;
    const HEAD_END: &[u8] = b"\r\n\r\n";
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Duration;

    use super::on_unix::{add, parse};
    use super::*;

    #[test]
    fn reports_of_several_daemons_are_put_together() {
        let body = r#"{"stale_lists":[{"server":"docs","lists":["tools","prompts"],"since_ms":1500,"reason":"connection refused"}],"more":1}"#;
        let mut all = ServerStaleLists::new();
        for daemon in [Some(7), None] {
            let response = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{body}");
            add(&mut all, daemon, parse(response.as_bytes()).unwrap());
        }
        let [first, second] = &all["docs"][..] else { panic!("{all:?}") };
        assert_eq!((first.daemon, second.daemon), (Some(7), None));
        let expected = json!({
            "lists": ["tools", "prompts"], "since": "1970-01-01T00:00:01.500Z", "reason": "connection refused",
            "daemon": 7,
        });
        assert_eq!(first.to_json(), expected);
        let now = CurrentTime::at(SystemTime::UNIX_EPOCH + Duration::from_millis(188_500));
        let text = "hosts get tools, prompts from the catalog for 3m 07s: connection refused";
        assert_eq!(first.text(now), text);
        let unknown = StaleLists { lists: Vec::new(), ..first.clone() };
        assert_eq!(unknown.text(now), "hosts get nothing of it for 3m 07s: connection refused");
    }

    #[test]
    fn what_is_no_report_says_nothing() {
        for response in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\n{\"stale_lists\":[]}",
            "HTTP/1.1 200 OK\r\n\r\nnot found",
            "HTTP/1.1 200 OK\r\n\r\n{\"stale_lists\":[{}]}",
        ] {
            assert!(parse(response.as_bytes()).is_none(), "{response}");
        }
    }
}
