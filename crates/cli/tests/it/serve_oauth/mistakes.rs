//! What is said about `[serve.oauth]`, and that a mistake lets nobody in.

use rustix::process::Signal;

use super::{Team, expect_line, initialize};
use crate::context::{Context, snapshot};
use crate::serve::Gateway;

const SERVER: &str = "[servers.one]\nurl = 'http://127.0.0.1:9/mcp'\n";

#[test]
fn a_mistake_in_the_table_is_no_reason_to_let_others_in() {
    let context = Context::new();
    context.user_config(&format!("{SERVER}[serve.oauth]\nresource = 'http://gateway/mcp'\n"));
    snapshot!(context.run(context.bowline(["serve", "--no-token"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: it is not clear how hosts are to be served
      problems:
        3:8: serve.oauth: needs `issuers`
          the authorization servers whose tokens are accepted
        4:12: serve.oauth.resource: must be a URL as hosts write it: https, or on this machine, without query, fragment and credentials
    ---
    ");
    let twice = "[serve.oauth]\nresource = 'https://gateway/mcp'\nissuers = ['https://a', 'https://a']\n";
    context.user_config(&format!("{SERVER}{twice}"));
    snapshot!(context.run(context.bowline(["serve", "--no-token"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: it is not clear how hosts are to be served
      problems: 5:25: serve.oauth.issuers[1]: this issuer is named twice
    ---
    ");
    context.user_config(&format!("{SERVER}[serv.oauth]\nresource = 'https://gateway/mcp'\n"));
    let shown = context.run(context.bowline(["serve", "--no-token"]));
    assert!(
        shown.starts_with("exit: 2\n") && shown.contains("it is not clear how hosts are to be served"),
        "{shown}"
    );
}

/// Without the token of the owner, only tokens of the issuer are accepted, and not every program.
#[tokio::test]
async fn without_a_local_token_only_those_of_issuers_count() {
    let team = Team::new("").await;
    let mut gateway = team.start("--no-token");
    let note = expect_line(&mut gateway, "note: ").await;
    assert_eq!(note, format!("note: serving 1 server at {}; Ctrl-C ends it", team.url));
    let note = expect_line(&mut gateway, "note: ").await;
    let issuer = team.issuer.issuer();
    assert_eq!(note, format!("note: hosts can use tokens of {issuer} for {}", team.url));
    assert_eq!(team.status("/mcp", "").await, 401);
    assert_eq!(team.status("/mcp", "other").await, 401);
    assert_eq!(team.status("/mcp", &team.token("")).await, 200);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A trusted project cannot name an issuer.
#[tokio::test]
async fn a_project_lets_nobody_in() {
    let team = Team::new("").await;
    let oauth = format!("[serve.oauth]\nresource = '{}'\nissuers = ['{}']\n", team.url, team.issuer.issuer());
    team.context.user_config(&crate::status::http_entry("one", &team.server));
    team.context.project_config(&oauth).trust_project();
    let mut gateway = team.start("");
    expect_line(&mut gateway, "note: hosts need the header").await;
    let reply = team.post("/mcp", &team.token(""), "", &initialize()).await;
    assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(team.get("/.well-known/oauth-protected-resource").await.status, 404);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

#[tokio::test]
async fn a_socket_of_the_owner_needs_no_token() {
    let team = Team::new("").await;
    let socket = team.context.path("socket");
    let mut gateway = Gateway::start(&team.context, &["--socket", socket.to_str().expect("a path")]);
    assert!(gateway.note().await.starts_with("serving 1 server on the socket"));
    let note = "[serve.oauth] is not used on a socket: only your programs can connect to it";
    assert_eq!(gateway.note().await, note);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// Tokens are checked by the new table from the reload on. One with a mistake changes nothing.
#[tokio::test]
async fn the_table_is_reloaded() {
    let team = Team::new("").await;
    let mut gateway = team.serve().await;
    assert_eq!(team.status("/mcp", &team.token("")).await, 200);
    team.configure("scopes = ['more']\n");
    gateway.signal(Signal::HUP);
    expect_line(&mut gateway, "note: the configuration was reloaded: [serve.oauth]").await;
    assert_eq!(team.status("/mcp", &team.token("")).await, 403);
    team.configure("scopes = 7\n");
    gateway.signal(Signal::HUP);
    expect_line(&mut gateway, "note: the configuration was not reloaded, and nothing has changed").await;
    assert_eq!(team.status("/mcp", &team.token("")).await, 403);
    team.configure("");
    gateway.signal(Signal::HUP);
    expect_line(&mut gateway, "note: the configuration was reloaded: [serve.oauth]").await;
    assert_eq!(team.status("/mcp", &team.token("")).await, 200);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
