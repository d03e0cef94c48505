//! What people and pipes see.

use std::process::Stdio;
use std::time::Duration;

use bowline_testkit::{self as testkit, Fault};

use super::configure_url;
use crate::context::{Context, snapshot, to_pid};
use crate::terminal::on_terminal_of;

#[tokio::test]
async fn pipe_gets_a_line_per_check() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    server.stop().await;
    configure_url(&context, &server.url());
    snapshot!(context.run(context.bowline(["doctor", "docs"])), @"
    exit: 3
    --- stdout
    docs	configuration	ok	[TIME]		[TMP]/home/.config/bowline/config.toml
    docs	proxy	ok	[TIME]		none: the server is reached directly
    docs	dns	ok	[TIME]		the URL has an address
    docs	tcp	failed	[TIME]	server	127.0.0.1:[PORT] refuses connections: nothing listens there	start the server, or correct the port in the URL	bowline doctor docs
    docs	connection	skipped			an earlier check failed
    docs	era	skipped			an earlier check failed
    docs	requests	skipped			an earlier check failed
    docs	keepalive	skipped			an earlier check failed
    docs	session	skipped			an earlier check failed
    --- stderr
    note: 1 check failed
    ---
    ");
}

async fn screen(columns: u16) -> String {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").fault(Fault::status(404).always()).run().await;
    let command = context.bowline(["doctor", &server.url(), "--color", "never", "-q"]);
    let shown = on_terminal_of(columns, command).replace("\r\n", "\n");
    let port = server.addr().port().to_string();
    let shown = context.hide_paths(&shown).replace(&port, "[PORT]");
    let time = regex::Regex::new(r" *\(?\d+(\.\d+)? (ms|s)\b\)?").unwrap();
    time.replace_all(&shown, " [TIME]").into_owned()
}

#[tokio::test]
async fn screen_of_80_columns() {
    let shown = screen(80).await;
    snapshot!(shown, @"
    127.0.0.1:[PORT] http http://127.0.0.1:[PORT]/mcp
      ✓ configuration [TIME]  none: it is on the command line
      ✓ proxy [TIME]  none: the server is reached directly
      ✓ dns [TIME]  the URL has an address
      ✓ tcp [TIME]  127.0.0.1:[PORT] accepts connections
      ✗ connection [TIME]  HTTP status 404
                                       fault of: you
                                       to fix it: correct the path of the URL; many
                                       servers listen under /mcp
      ✓ clock [TIME]  it agrees with that of the server
      - skipped, since an earlier check failed: era, requests, keepalive, session
    ");
}

#[tokio::test]
async fn screen_of_60_columns() {
    let shown = screen(60).await;
    snapshot!(shown, @"
    127.0.0.1:[PORT] http http://127.0.0.1:[PORT]/mcp
      ✓ configuration [TIME]
          none: it is on the command line
      ✓ proxy [TIME]
          none: the server is reached directly
      ✓ dns [TIME]
          the URL has an address
      ✓ tcp [TIME]
          127.0.0.1:[PORT] accepts connections
      ✗ connection [TIME]
          HTTP status 404
          fault of: you
          to fix it: correct the path of the URL; many servers
          listen under /mcp
      ✓ clock [TIME]
          it agrees with that of the server
      - skipped, since an earlier check failed: era, requests,
        keepalive, session
    ");
}

/// Ctrl-C ends it at once, whatever a server does.
#[tokio::test]
async fn ctrl_c_ends_it() {
    let context = Context::new();
    let server = testkit::server().legacy().fault(Fault::silent().always()).run().await;
    configure_url(&context, &server.url());
    let mut command = context.bowline(["doctor", "docs"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    server.wait_for(|received| !received.method.is_empty(), Duration::from_secs(20)).await;
    rustix::process::kill_process(to_pid(child.id()), rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
