//! `bowline serve` as an OAuth resource server, in front of a real server and with a small real issuer.

mod keys;
mod mistakes;
mod tokens;
mod users;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use bowline_testkit::{self as testkit, AuthServer, HttpServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::browser::Browser;
use crate::connect::host::TEST_TIMEOUT;
use crate::context::Context;
use crate::pty::Person;
use crate::serve::Gateway;
use crate::status::http_entry;

/// An issuer, a server, and the socket of a gateway in front of it.
struct Team {
    context: Context,
    issuer: AuthServer,
    server: HttpServer,
    /// The socket is the test's, so that its address is known before the gateway is configured.
    socket: TcpListener,
    /// The URL of the gateway, and its resource.
    url: String,
}

/// A response.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Team {
    /// A team whose gateway accepts tokens of the issuer, with `more` in the table and after it.
    async fn new(more: &str) -> Self {
        let issuer = AuthServer::builder().jwt_access_tokens().start().await;
        let server = testkit::server().legacy().tool("echo").tool("counter").run().await;
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/mcp", socket.local_addr().expect("an address"));
        let team = Self { context: Context::new(), issuer, server, socket, url };
        team.configure(more);
        team
    }

    fn configure(&self, more: &str) {
        let (url, issuer) = (&self.url, self.issuer.issuer());
        self.context.user_config(&format!(
            "{}[serve.oauth]\nresource = '{url}'\nissuers = ['{issuer}']\n{more}",
            http_entry("one", &self.server)
        ));
    }

    /// Starts the gateway, which is given the socket in the way of systemd.
    fn start(&self, args: &str) -> Gateway {
        let script = format!("LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve {args} 3<&0 </dev/null");
        let socket = OwnedFd::from(self.socket.try_clone().expect("a descriptor"));
        let mut shell = self.context.shell(&script);
        shell
            .stdin(Stdio::from(socket))
            .env("BOWLINE_LOG", "bowline=trace,bowline_server=trace,bowline_auth=trace");
        Gateway::start_command(shell)
    }

    /// Starts the gateway, and waits until it serves.
    async fn serve(&self) -> Gateway {
        let mut gateway = self.start("");
        expect_line(&mut gateway, "note: hosts can use tokens of ").await;
        gateway
    }

    /// A token of the issuer for Alice, or for whom its script names.
    fn token(&self, scope: &str) -> String {
        self.issuer.issue("client", scope, &self.url).access_token
    }

    /// Sends a message to a path, with a token and in a session, if they are given.
    async fn post(&self, path: &str, token: &str, session: &str, message: &Value) -> Reply {
        let body = message.to_string();
        let header = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("{name}{value}\r\n"),
        };
        let headers = header("authorization: Bearer ", token) + &header("mcp-session-id: ", session);
        self.exchange(&format!("POST {path}"), &headers, &body).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.exchange(&format!("GET {path}"), "", "").await
    }

    async fn exchange(&self, start: &str, headers: &str, body: &str) -> Reply {
        let address = self.socket.local_addr().expect("an address");
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            let request = format!(
                "{start} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).await.expect("it reads");
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.expect("a reply");
            reply
        };
        let reply = timeout(TEST_TIMEOUT, exchange).await.expect("a reply in time");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a reply");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The status of a new session with this token.
    async fn status(&self, path: &str, token: &str) -> u16 {
        self.post(path, token, "", &initialize()).await.status
    }

    /// Begins a session, and returns its id.
    async fn begin(&self, path: &str, token: &str) -> String {
        let reply = self.post(path, token, "", &initialize()).await;
        let session = reply.header("mcp-session-id").expect("a session").to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(path, token, &session, &initialized).await.status, 202);
        session
    }

    /// The names of the tools of a session.
    async fn tools(&self, path: &str, token: &str, session: &str) -> Vec<String> {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        let reply = self.post(path, token, session, &list).await;
        let list = reply.message();
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The message in the body, as JSON or as an event.
    fn message(&self) -> Value {
        let texts = self.body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let mut messages = texts.filter_map(|text| serde_json::from_str(text).ok());
        messages.find(Value::is_object).unwrap_or_else(|| panic!("no message in {}", self.body))
    }
}

fn initialize() -> Value {
    let info = json!({"name": "raw", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// Waits for a line on stderr that contains this.
async fn expect_line(gateway: &mut Gateway, text: &str) -> String {
    loop {
        let line = gateway.line().await;
        if line.contains(text) {
            return line;
        }
    }
}

/// GW-11: the challenge of a gateway is all that a host needs, which is bowline itself here: it logs in,
/// calls a tool, and keeps working when its token was refreshed. SE-06: no server sees a token.
#[tokio::test]
async fn gw_11_a_host_logs_in_by_the_challenge_of_a_gateway() {
    let team = Team::new("scopes = ['mcp']\n").await;
    let gateway = team.serve().await;
    let member = Context::new();
    member.user_config(&format!("[store]\nkey = 'file'\n\n[servers.gateway]\nurl = '{}'\n", team.url));
    let call = || member.run(member.bowline(["call", "gateway", "echo", "message=ahoy"]));
    assert!(call().contains("bowline login gateway"), "{}", call());

    let browser = Browser::new(&member);
    let mut login = member.bowline(["login", "gateway"]);
    login.env("BROWSER", &browser.program);
    let person = Person::sits_at(login);
    let opened = browser.opened();
    let page = testkit::Browser::new().login(opened.strip_prefix("1|").expect("one argument")).await;
    assert_eq!(page.status, 200, "{page:?}");
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}{}", end.stdout, end.screen);
    let authorize = &team.issuer.received_at("authorize")[0];
    assert_eq!(authorize.field("scope"), Some("mcp"));
    assert_eq!(authorize.field("resource"), Some(&*team.url));

    let mut gateway = gateway;
    for refreshes in [0, 1] {
        let shown = call();
        assert_eq!(team.issuer.refreshes(), refreshes);
        assert!(shown.starts_with("exit: 0\n--- stdout\n{\"message\":\"ahoy\"}\n"), "{shown}");
        // The next gateway finds no key for the token, which is refreshed because of the challenge.
        assert_eq!(gateway.terminate().await.code(), Some(0));
        team.issuer.rotate_key();
        gateway = team.serve().await;
    }
    assert_eq!(team.issuer.authorizations(), 1);
    assert_eq!(team.issuer.violations(), [""; 0]);
    let received = team.server.received();
    assert!(received.iter().any(|message| message.tool() == Some("echo")));
    for message in received {
        assert_eq!(message.header("authorization"), None, "{message:?}");
        assert_eq!(testkit::canary::find_secret(format!("{message:?}").as_bytes(), &[]), None);
    }
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// GW-11: what a host is told that has nothing but the URL.
#[tokio::test]
async fn gw_11_metadata_and_challenge_name_the_issuer_and_the_scopes() {
    let views = "[serve.oauth.views]\n'mcp:r' = 'read'\n[views.read]\ntools = { one = ['echo'] }\n";
    let team = Team::new(&format!("scopes = ['mcp']\n{views}")).await;
    let gateway = team.serve().await;
    let (origin, well_known) = (team.url.trim_end_matches("/mcp"), "/.well-known/oauth-protected-resource");
    let reply = team.post("/mcp/read", "", "", &initialize()).await;
    assert_eq!(reply.status, 401);
    let challenge = format!("Bearer scope=\"mcp mcp:r\", resource_metadata=\"{origin}{well_known}/mcp\"");
    assert_eq!(reply.header("www-authenticate"), Some(&*challenge));
    for path in ["", "/mcp", "/mcp/read"] {
        let reply = team.get(&format!("{well_known}{path}")).await;
        let expected = json!({
            "resource": team.url,
            "authorization_servers": [team.issuer.issuer()],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["mcp", "mcp:r"],
        });
        assert_eq!((reply.status, reply.message()), (200, expected), "{path}");
    }
    assert_eq!(team.issuer.received().len(), 0, "nothing is fetched before there is a token");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// GW-11, SE-08: scopes choose the view, and a session is that of a user, whichever token the user has.
#[tokio::test]
async fn gw_11_scopes_choose_views_and_sessions_are_those_of_users() {
    let views = "[serve.oauth.views]\n'mcp:r' = 'read'\n'mcp:w' = 'write'\n\
                 [views.read]\ntools = { one = ['echo'] }\n[views.write]\ntools = { one = ['counter'] }\n";
    let team = Team::new(&format!("scopes = ['mcp']\n{views}")).await;
    let gateway = team.serve().await;
    let (read, write, both) =
        (team.token("mcp mcp:r"), team.token("mcp mcp:w"), team.token("mcp mcp:r mcp:w"));
    for (path, token, tools) in [
        ("/mcp", &read, ["echo"]),
        ("/mcp/read", &read, ["echo"]),
        ("/mcp", &write, ["counter"]),
        ("/mcp/read", &both, ["echo"]),
        ("/mcp/write", &both, ["counter"]),
    ] {
        let session = team.begin(path, token).await;
        assert_eq!(team.tools(path, token, &session).await, tools, "{path}");
    }
    for (path, token, scope) in [
        ("/mcp/write", &read, Some("mcp mcp:w")),
        ("/mcp", &team.token("mcp"), Some("mcp mcp:r mcp:w")),
        ("/mcp", &team.token("mcp:r"), Some("mcp mcp:r mcp:w")),
        ("/mcp", &both, None),
        ("/mcp/other", &both, None),
    ] {
        let reply = team.post(path, token, "", &initialize()).await;
        let challenge = scope.map(|scope| format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""));
        let given = reply.header("www-authenticate").map(|value| value.split(", resource").next().unwrap());
        assert_eq!((reply.status, given), (403, challenge.as_deref()), "{path}");
    }
    let session = team.begin("/mcp", &read).await;
    let refreshed = team.token("mcp mcp:r");
    assert_ne!(refreshed, read);
    assert_eq!(team.tools("/mcp/read", &refreshed, &session).await, ["echo"]);
    team.issuer.edit(|script| script.account("bob"));
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let bob = team.token("mcp mcp:r");
    assert_eq!(team.post("/mcp", &bob, &session, &ping).await.status, 404, "another user");
    assert_eq!(team.post("/mcp", &write, &session, &ping).await.status, 404, "another view");
    let local = std::fs::read_to_string(team.context.path("home/.local/state/bowline/serve-token"));
    let local = local.expect("the token of the owner");
    assert_eq!(team.post("/mcp/read", &local, &session, &ping).await.status, 404, "the owner");
    let owned = team.begin("/mcp", &local).await;
    assert_eq!(team.tools("/mcp", &local, &owned).await, ["echo", "counter"], "everything");
    assert_eq!(gateway.terminate().await.code(), Some(0));
    // Also in the next process.
    let gateway = team.serve().await;
    assert_eq!(team.post("/mcp", &bob, &session, &ping).await.status, 404);
    assert_eq!(team.tools("/mcp", &refreshed, &session).await, ["echo"]);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
