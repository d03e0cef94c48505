//! The checks of a connection that was made: era, requests, keepalive, session, what a process
//! writes, and how it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline::{Client, Era, Health, Peer, ProcessEnd, Server, ShutdownStep};
use tokio::time::timeout;

use super::check::{Blame, CheckLog, Finding};
use super::fault::{self, SESSION_ADVICE};
use super::subject::Subject;
use crate::exit::Exit;
use crate::print::units;

/// The checks of a connection, in order, for those that are skipped.
pub(super) const NAMES: [&str; 4] = ["era", "requests", "keepalive", "session"];

/// How long one request of a check may take, whatever the entry allows.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// An answer to a probe that takes longer than this is worth a warning.
const SLOW_ANSWER: Duration = Duration::from_secs(2);
/// How long the process of a server may take to end after its input was closed.
pub(super) const EXIT_WAIT: Duration = Duration::from_secs(3);
/// How long closing a connection may take.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Limits the time of requests to what a check may take.
pub(super) fn with_request_limits(server: Server) -> Server {
    let (idle, total) =
        (server.timeouts.idle.min(REQUEST_TIMEOUT), server.timeouts.total.min(REQUEST_TIMEOUT));
    server.with_idle_timeout(idle).with_timeout(total)
}

/// Makes the checks of a connection that is ready.
pub(super) async fn check(client: &Client, peer: &Arc<Peer>, subject: &Subject<'_>, log: &CheckLog) {
    let begun = Instant::now();
    log.add("era", begun, era_finding(peer, client.transport(), subject.server));
    let begun = Instant::now();
    let listed = list(client, peer).await;
    log.add("requests", begun, requests_finding(listed, subject));
    let begun = Instant::now();
    let answered = timeout(REQUEST_TIMEOUT, client.ping()).await;
    let finding = match answered {
        Ok(Ok(())) => ping_finding(begun.elapsed(), subject.server),
        // Some servers do not know the method, which is an answer too.
        Ok(Err(error)) if matches!(error.kind(), bowline::ErrorKind::Server(_)) => {
            ping_finding(begun.elapsed(), subject.server)
        }
        Ok(Err(error)) => fault::of_error(&error, subject),
        Err(_) => silent_finding(subject),
    };
    log.add("keepalive", begun, finding);
    let has_session = peer.era() == Era::Legacy && !subject.is_process();
    let kind = if subject.is_process() {
        SessionKind::Process
    } else if has_session {
        SessionKind::Http
    } else {
        SessionKind::None
    };
    log.add_timed("session", Duration::ZERO, session_finding(kind, &client.health(), subject));
}

/// Closes the connection. Of a process it is checked what it wrote, and how it ends if it was ready.
pub(super) async fn close(client: &Client, was_ready: bool, subject: &Subject<'_>, log: &CheckLog) {
    let begun = Instant::now();
    let is_closed = timeout(CLOSE_TIMEOUT, client.close()).await.is_ok();
    if !subject.is_process() {
        return;
    }
    let took = begun.elapsed();
    let health = client.health();
    // What a server wrote in place of messages may be why it did not become ready.
    if was_ready || health.stray_lines > 0 {
        log.add_timed("output", Duration::ZERO, output_finding(&health, subject));
    }
    if !was_ready {
        return;
    }
    let end = health.process_end.filter(|_| is_closed);
    log.add_timed("shutdown", took, shutdown_finding(end));
}

/// What a list request brought.
struct ListOutcome {
    method: &'static str,
    count: usize,
    dropped: usize,
}

/// Lists what the server offers first: tools, or else prompts, or else resources. `None` if it offers
/// none of them.
async fn list(client: &Client, peer: &Peer) -> bowline::Result<Option<ListOutcome>> {
    let capabilities = &peer.capabilities;
    Ok(Some(if capabilities.tools.is_some() {
        let list = client.list_tools_full().await?;
        ListOutcome { method: "tools/list", count: list.items.len(), dropped: list.dropped.len() }
    } else if capabilities.prompts.is_some() {
        ListOutcome { method: "prompts/list", count: client.list_prompts().await?.len(), dropped: 0 }
    } else if capabilities.resources.is_some() {
        ListOutcome { method: "resources/list", count: client.list_resources().await?.len(), dropped: 0 }
    } else {
        return Ok(None);
    }))
}

/// Returns the name of the era, as `protocol` in an entry has it.
pub(super) fn era_name(peer: &Peer) -> &'static str {
    match peer.era() {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn era_finding(peer: &Peer, transport: &str, server: &Server) -> Finding {
    let (era, revision) = (era_name(peer), peer.revision.as_str());
    let name = peer.server.as_ref().map(|it| format!(" by {} {}", it.name, it.version)).unwrap_or_default();
    let seen = format!("{era}, revision {revision}, over {transport}{name}");
    if transport == server.transport.as_str() {
        return Finding::ok(seen);
    }
    Finding::ok(format!("{seen}; Streamable HTTP was refused"))
}

fn requests_finding(listed: bowline::Result<Option<ListOutcome>>, subject: &Subject<'_>) -> Finding {
    match listed {
        Ok(None) => Finding::ok("it offers no tools, prompts or resources"),
        Ok(Some(ListOutcome { method, count, dropped: 0 })) => {
            Finding::ok(format!("{method}: {}", units::count(count, "element")))
        }
        Ok(Some(ListOutcome { method, count, dropped })) => {
            let seen = format!("{method}: {}, and {dropped} malformed", units::count(count, "element"));
            Finding::warning(Blame::Server, seen)
                .fix("malformed elements are left out: report it to who makes the server")
                .run(subject.log_command())
        }
        Err(error) => fault::of_error(&error, subject),
    }
}

fn ping_finding(took: Duration, server: &Server) -> Finding {
    let interval = match server.keepalive {
        Some(interval) => format!("asked again after {} without traffic", units::time(interval)),
        None => "keepalive is off in its entry".to_owned(),
    };
    if took < SLOW_ANSWER {
        return Finding::ok(format!("it answers; {interval}"));
    }
    Finding::warning(Blame::Server, format!("it took {} to answer; {interval}", units::time(took)))
        .fix("the server, or the way to it, is slow: ask who runs it")
}

fn silent_finding(subject: &Subject<'_>) -> Finding {
    let seen = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
    Finding::failed(Blame::Server, Exit::Timeout, seen)
        .fix("the server does not answer: ask who runs it, or see its log")
        .run(subject.log_command())
}

/// What a session is with this server.
#[derive(Clone, Copy)]
enum SessionKind {
    Process,
    Http,
    /// Each request stands on its own.
    None,
}

fn session_finding(kind: SessionKind, health: &Health, subject: &Subject<'_>) -> Finding {
    let (lost, recovered) = (health.sessions_lost, health.recoveries);
    if lost > 0 {
        let seen = format!("the server lost its session {} within this check", times(lost));
        return Finding::warning(Blame::Server, seen).fix(SESSION_ADVICE).run(subject.doctor_command(&[]));
    }
    if recovered > 0 {
        let why = health.last_fault.as_ref().map(|(_, fault)| fault::of_fault(fault, subject));
        let what = why.as_ref().map(|why| format!(": {}", why.seen)).unwrap_or_default();
        let seen = format!("the connection broke {} within this check{what}", times(recovered));
        let finding = Finding::warning(Blame::Server, seen);
        return finding
            .fix("it was made again; the log of the server may say why it broke")
            .run(subject.log_command())
            .details(why.into_iter().flat_map(|why| why.details));
    }
    Finding::ok(match kind {
        SessionKind::Process => "the process kept running",
        SessionKind::Http => "the session held",
        SessionKind::None => "none: each request stands on its own",
    })
}

fn times(count: u64) -> &'static str {
    if count == 1 { "once" } else { "several times" }
}

fn output_finding(health: &Health, subject: &Subject<'_>) -> Finding {
    let (stray, stderr) = (health.stray_lines, health.stderr_lines);
    let lines = |count: u64| units::count(usize::try_from(count).unwrap_or(usize::MAX), "line");
    let logged = format!("{} on stderr", lines(stderr));
    if stray == 0 {
        return Finding::ok(format!("only messages on stdout; {logged}"));
    }
    let seen = format!("non-MCP output on stdout: {}; {logged}", lines(stray));
    Finding::warning(Blame::Server, seen)
        .fix("other hosts may give up there: the server has to write its log to stderr")
        .run(subject.log_command())
}

fn shutdown_finding(end: Option<ProcessEnd>) -> Finding {
    let advice = "hosts that only close its input leave it running: report it to who makes the server";
    let Some(end) = end else {
        return Finding::warning(Blame::Server, "the process could not be ended in time")
            .fix("it is ended with this command")
            .run("bowline ps".to_owned());
    };
    let seen = match end.step {
        // Its input is closed first, so that a fast process has ended before it is asked to.
        ShutdownStep::Unasked | ShutdownStep::InputClosed if end.left_processes => {
            "it ended when its input did, and left processes behind, which were ended"
        }
        ShutdownStep::Unasked | ShutdownStep::InputClosed => {
            return Finding::ok("it ended when its input did");
        }
        ShutdownStep::Terminated => "it did not end when its input did; SIGTERM ended it",
        _ => "it ended neither when its input did nor on SIGTERM, and was killed",
    };
    Finding::warning(Blame::Server, seen).fix(advice)
}

#[cfg(test)]
mod tests {
    use bowline::Exit as ProcessExit;

    use super::*;
    use crate::commands::doctor::check::Status;
    use crate::commands::doctor::subject::tests::with_subject;

    #[test]
    fn each_way_to_end_is_told_apart() {
        let of = |step, left| {
            let mut end = ProcessEnd::new(ProcessExit::Code(0), step);
            end.left_processes = left;
            let finding = shutdown_finding(Some(end));
            (finding.status, finding.seen)
        };
        assert_eq!(of(ShutdownStep::InputClosed, false).0, Status::Ok);
        assert_eq!(of(ShutdownStep::Unasked, false).0, Status::Ok);
        for (step, left, word) in [
            (ShutdownStep::InputClosed, true, "left processes behind"),
            (ShutdownStep::Unasked, true, "left processes behind"),
            (ShutdownStep::Terminated, false, "SIGTERM ended it"),
            (ShutdownStep::Killed, false, "was killed"),
        ] {
            let (status, seen) = of(step, left);
            assert!(status == Status::Warning && seen.contains(word), "{seen}");
        }
        assert_eq!(shutdown_finding(None).status, Status::Warning);
    }

    #[test]
    fn lost_session_is_a_warning_although_it_was_restored() {
        let server = Server::http("docs", "http://h/mcp").build().unwrap();
        let mut health = Health::default();
        with_subject(&server, |subject| {
            assert_eq!(session_finding(SessionKind::Http, &health, subject).seen, "the session held");
            health.sessions_lost = 2;
            let finding = session_finding(SessionKind::Http, &health, subject);
            assert_eq!(finding.seen, "the server lost its session several times within this check");
            assert_eq!((finding.status, finding.blame), (Status::Warning, Some(Blame::Server)));
        });
    }
}
