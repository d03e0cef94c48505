//! The stderr of a server's process as events.

use std::sync::Arc;

use bowline::{Client, ConnectionEventKind, Event, EventReceiver, Registry, StderrLine};
use bowline_config::TransportSettings as _;
use bowline_testkit as testkit;
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, stdio};

/// Waits for the next line; other events are skipped.
async fn next_line(events: &mut EventReceiver<Event>) -> Arc<StderrLine> {
    let line = async {
        loop {
            if let Event::Stderr(line) = events.next().await.expect("the connection is open") {
                return line;
            }
        }
    };
    timeout(TEST_TIMEOUT, line).await.expect("a line comes")
}

/// Waits until a process that ended was replaced.
async fn wait_for_recovery(events: &mut EventReceiver<Event>) {
    let recovered = async {
        loop {
            match events.next().await.expect("the connection is open") {
                Event::Connection(life) if life.kind == ConnectionEventKind::Recovered => break,
                _ => {}
            }
        }
    };
    timeout(TEST_TIMEOUT, recovered).await.expect("the process is restarted");
}

/// Each line is one event, in order, also of the process that replaces one that ended.
#[tokio::test]
async fn lines_of_stderr_are_events() {
    let server = testkit::server().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server).with_env("TOKEN", "hunter2hunter2").unwrap()).await.unwrap();
    let mut events = client.events();
    client.report_stderr();
    server.write_stderr(b"plain\r\n\nnot \xff UTF-8\n\x1b[31mred\nhunter2hunter2\n".as_slice());
    for expected in ["plain", "not \u{fffd} UTF-8", "\u{1b}[31mred", "[redacted]"] {
        let line = next_line(&mut events).await;
        assert_eq!((&*line.text, line.skipped), (expected, 0));
    }
    server.write_stderr(format!("{}\n", "x".repeat(1 << 20)));
    assert_eq!(*next_line(&mut events).await.text, format!("{}…", "x".repeat(1024)));

    server.exit(1);
    wait_for_recovery(&mut events).await;
    server.write_stderr("a new process\n");
    assert_eq!(&*next_line(&mut events).await.text, "a new process");
    client.close().await;
}

/// A server that floods stderr fills a part of the queue and displaces no other event. The lines
/// that were left out are counted.
#[tokio::test]
async fn flood_of_stderr_displaces_no_other_event() {
    const LINES: usize = 20_000;
    let server = testkit::server().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    let (mut events, mut other) = (client.events(), client.events());
    client.report_stderr();
    server.write_stderr("complaint\n".repeat(LINES));
    // Nobody receives from `events` meanwhile. The process ends after the last line was read.
    server.exit(1);
    wait_for_recovery(&mut other).await;
    let (mut lines, mut kinds) = (0_u64, Vec::new());
    while let Some(event) = events.try_next() {
        match event {
            Event::Stderr(_) => lines += 1,
            Event::Connection(life) => kinds.push(life.kind),
            Event::Missed(count) => panic!("{count} events were displaced"),
            _ => {}
        }
    }
    assert!(lines <= 256, "{lines} lines were queued");
    assert_eq!(kinds, [ConnectionEventKind::Disconnected, ConnectionEventKind::Recovered]);
    server.write_stderr("again\n");
    let line = next_line(&mut events).await;
    assert_eq!((&*line.text, line.skipped + lines), ("again", LINES as u64));
    client.close().await;
}

/// The lines of a registry name their server, and only a registry that asks for lines has them.
#[tokio::test]
async fn registry_says_which_server_wrote_a_line() {
    let server = testkit::server().tool("echo").stdio().await;
    for is_asked in [true, false] {
        let builder = if is_asked { Registry::builder().report_stderr() } else { Registry::builder() };
        let mut events = builder.events();
        let registry = builder.open([stdio(&server)]);
        let client = registry.get("test").unwrap();
        client.ready().await.unwrap();
        server.write_stderr("hello\n");
        server.exit(1);
        let mut lines = Vec::new();
        let recovered = async {
            loop {
                let received = events.next().await.expect("the registry is open");
                match received.event {
                    Event::Stderr(line) => lines.push((received.server, line.text.clone())),
                    Event::Connection(life) if life.kind == ConnectionEventKind::Recovered => break,
                    _ => {}
                }
            }
        };
        timeout(TEST_TIMEOUT, recovered).await.expect("the process is restarted");
        let expected: &[(Arc<str>, Box<str>)] = &[("test".into(), "hello".into())];
        assert_eq!(lines, if is_asked { expected } else { &[] });
        registry.close().await;
    }
}
