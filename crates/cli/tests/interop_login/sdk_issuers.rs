//! Servers that issue their own tokens (FastMCP, the Python SDK, the TypeScript SDK), with every
//! registration and authentication method they offer. Their provider approves every login at once,
//! so a login page is one request.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Output;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::context::Context;
use crate::script::{Script, TEST_TIMEOUT};
use crate::site::assert_printed;

/// A server, and a home in which it is configured as `own`.
struct IssuingServer {
    context: Context,
    mcp: String,
    script: Script,
    /// A tool and its arguments, with which it returns `hello`.
    tool: &'static [&'static str],
}

/// A request of a client to an endpoint.
#[derive(Debug, Deserialize)]
struct ClientRequest {
    path: String,
    grant: Option<String>,
    basic: bool,
    /// Those of its form fields whose names begin with `client_`.
    fields: Vec<String>,
    status: u16,
}

/// The client authentication method of a request, and its status.
type AuthMethodUse = (&'static str, u16);

const BASIC: &str = "client_secret_basic";
const POST: &str = "client_secret_post";
const NONE: &str = "none";
/// Contains every character that could break a header or a form.
const SECRET: &str = "tk-secret-s:e c+r%e&t=~";

impl IssuingServer {
    fn python(make: &str, clients: &Value, registers: Option<&str>) -> Self {
        let settings = json!({ "make": make, "clients": clients, "registers": registers });
        let (script, first) = Script::python("issuing.py", &settings.to_string());
        Self::start(script, &first, &["hello"])
    }

    fn typescript(clients: &Value, offers: Option<&[&str]>) -> Self {
        let settings = json!({ "clients": clients, "offers": offers });
        let (script, first) = Script::node("node/issuing.mjs", &settings);
        Self::start(script, &first, &["echo", "message=hello"])
    }

    fn start(script: Script, first: &Value, tool: &'static [&'static str]) -> Self {
        let mcp = first["mcp"].as_str().expect("an address").to_owned();
        let issuing = Self { context: Context::new(), mcp, script, tool };
        issuing.configure("");
        issuing
    }

    fn configure(&self, auth: &str) {
        let entry = format!("[servers.own]\nurl = '{}'\n{auth}\n", self.mcp);
        // No test touches the keyring of the user who runs it.
        self.context.user_config(&format!("[store]\nkey = 'file'\n\n{entry}"));
    }

    fn run(&self, args: &[&str]) -> Output {
        self.context.bowline(args).output().expect("bowline starts")
    }

    fn prints(&self, args: &[&str]) -> String {
        assert_printed(args, &self.run(args))
    }

    /// Logs in from start to finish, and makes a call that needs the login.
    fn logs_in(&self) {
        let begun = self.run(&["login", "own", "--json"]);
        let said = String::from_utf8_lossy(&begun.stderr);
        assert_eq!(begun.status.code(), Some(5), "{said}");
        let told: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let url = told.iter().find_map(|told| told["error"]["url"].as_str());
        let sent = redirect_of(url.unwrap_or_else(|| panic!("no address: {said}")));
        self.prints(&["login", "own", "--finish", &sent]);
        self.calls();
    }

    fn calls(&self) {
        let args = [&["call", "own"], self.tool].concat();
        assert_eq!(self.prints(&args).trim(), "hello");
    }

    fn end_access_tokens(&mut self) {
        self.script.ask("end", json!({}));
    }

    fn good_access_tokens(&mut self) -> u64 {
        self.script.ask("good", json!({})).as_u64().expect("a number")
    }

    fn requests(&mut self) -> Vec<ClientRequest> {
        serde_json::from_value(self.script.ask("record", json!({}))).expect("a record")
    }

    /// Returns the authentication method of each request with this grant, in order.
    fn auth_methods(&mut self, grant: &str) -> Vec<AuthMethodUse> {
        let seen = self.requests();
        seen.iter()
            .filter(|seen| seen.grant.as_deref() == Some(grant))
            .map(ClientRequest::auth_method)
            .collect()
    }
}

impl ClientRequest {
    fn auth_method(&self) -> AuthMethodUse {
        let has = |name: &str| self.fields.iter().any(|field| field == name);
        assert!(has("client_id"), "{self:?}");
        let method = match (self.basic, has("client_secret")) {
            (true, false) => BASIC,
            (false, true) => POST,
            (false, false) => NONE,
            (true, true) => panic!("two proofs at once: {self:?}"),
        };
        (method, self.status)
    }
}

/// Returns the redirect of a login page that approves at once.
fn redirect_of(url: &str) -> String {
    let url = Url::parse(url).expect("an address");
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut socket = TcpStream::connect(&host).expect("the page is there");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    write!(socket, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("a page");
    let location = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then(|| value.to_owned())
    });
    location.unwrap_or_else(|| panic!("no redirect: {answer}"))
}

fn registered_client(id: &str, method: &str) -> Value {
    let secret = (method != NONE).then_some(SECRET);
    json!([{ "id": id, "secret": secret, "method": method }])
}

/// Makes the configuration of a preregistered client.
fn client_config(id: &str, secret: bool) -> String {
    let secret = if secret { format!(", client_secret = {}", json!(SECRET)) } else { String::new() };
    format!("auth = {{ client_id = '{id}'{secret} }}")
}

/// AR-05: with every registered authentication method, a client gets, refreshes and revokes tokens.
fn check_python_logins(make: &str) {
    for registers in [None, Some(BASIC), Some(POST), Some(NONE)] {
        let mut own = IssuingServer::python(make, &json!([]), registers);
        own.logs_in();
        own.end_access_tokens();
        own.calls();
        let once = [(registers.unwrap_or(BASIC), 200)];
        assert_eq!(own.auth_methods("authorization_code"), once, "{registers:?}");
        assert_eq!(own.auth_methods("refresh_token"), once, "{registers:?}");
        assert_eq!(own.good_access_tokens(), 1);
        assert_eq!(
            own.prints(&["logout", "own"]).trim(),
            "own: logged out; the token was revoked",
            "{registers:?}"
        );
        assert_eq!(own.good_access_tokens(), 0);
        let registrations = own.requests().iter().filter(|seen| seen.path == "/register").count();
        assert_eq!(registrations, 1);
    }
    // A preregistered client is not told its authentication method; it tries, and remembers the one
    // that works.
    for (method, tried) in [(BASIC, vec![]), (POST, vec![(BASIC, 401)]), (NONE, vec![])] {
        let mut own = IssuingServer::python(make, &registered_client("hand", method), None);
        own.configure(&client_config("hand", method != NONE));
        own.logs_in();
        own.end_access_tokens();
        own.calls();
        let tried = tried.into_iter().chain([(method, 200)]).collect::<Vec<_>>();
        assert_eq!(own.auth_methods("authorization_code"), tried);
        assert_eq!(own.auth_methods("refresh_token"), [(method, 200)]);
        assert_eq!(own.prints(&["logout", "own"]).trim(), "own: logged out; the token was revoked");
    }
}

#[test]
fn fastmcp_issues_its_own_tokens() {
    check_python_logins("fastmcp");
}

#[test]
fn the_python_sdk_issues_its_own_tokens() {
    check_python_logins("sdk");
}

/// Its demo provider neither refreshes nor revokes.
#[test]
fn the_typescript_sdk_issues_its_own_tokens() {
    let both: &[&str] = &[POST, NONE];
    for (offers, method) in [(None, NONE), (Some(both), NONE), (Some(&both[..1]), POST)] {
        let mut own = IssuingServer::typescript(&json!([]), offers);
        own.logs_in();
        assert_eq!(own.auth_methods("authorization_code"), [(method, 200)], "{offers:?}");
        assert_eq!(own.good_access_tokens(), 1);
    }
    let misled: &[&str] = &[BASIC, POST];
    for (offers, method, tried) in [
        (None, POST, vec![(POST, 200)]),
        // It advertises methods that it does not check.
        (Some(misled), POST, vec![(BASIC, 400), (POST, 200)]),
        (None, NONE, vec![(NONE, 200)]),
    ] {
        let mut own = IssuingServer::typescript(&registered_client("hand", method), offers);
        own.configure(&client_config("hand", method != NONE));
        own.logs_in();
        assert_eq!(own.auth_methods("authorization_code"), tried, "{offers:?}");
    }
}
