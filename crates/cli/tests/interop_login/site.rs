//! An authorization server, the MCP servers it protects, and a home in which these are configured
//! as `docs` and `bound`.

use std::process::Output;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::chromium::{Chromium, Page};
use crate::context::{Command, Context};
use crate::pty::{Person, TerminalExit};
use crate::script::Script;

pub(crate) struct LoginSite {
    pub(crate) context: Context,
    pub(crate) issuer: String,
    pub(crate) mcp: String,
    pub(crate) dpop: String,
    /// The credentials of clients for the client credentials grant.
    pub(crate) machines: Value,
    script: Script,
}

/// What the servers have recorded.
#[derive(Debug, Deserialize)]
pub(crate) struct Record {
    /// Requests of bowline and the browser to the authorization server.
    pub(crate) requests: Vec<Request>,
    /// Errors of the authorization server.
    pub(crate) complaints: Vec<Complaint>,
    /// The number of logins that the authorization server has revoked.
    pub(crate) revoked: u32,
    /// Requests to the MCP servers.
    pub(crate) shown: Vec<McpRequest>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) route: String,
    pub(crate) status: u16,
    pub(crate) params: Value,
    #[serde(default)]
    pub(crate) body: Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Complaint {
    pub(crate) event: String,
    pub(crate) error: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct McpRequest {
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) scheme: Option<String>,
}

impl LoginSite {
    pub(crate) fn new() -> Self {
        Self::with_options(json!({}))
    }

    /// `lifetime`: seconds that access tokens live. `nonces`: whether proofs need one. `method`:
    /// the only client authentication method.
    pub(crate) fn with_options(how: Value) -> Self {
        let mut argument = json!({ "lifetime": 3600, "nonces": false });
        argument.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        let (script, first) = Script::node("node/site.mjs", &argument);
        let text = |name: &str| first[name].as_str().expect("an address").to_owned();
        let (issuer, mcp, dpop) = (text("issuer"), text("mcp"), text("dpop"));
        let machines = first["machines"].clone();
        let site = Self { context: Context::new(), issuer, mcp, dpop, machines, script };
        let (docs, bound) = (&site.mcp, &site.dpop);
        site.configure(&format!("[servers.docs]\nurl = '{docs}'\n\n[servers.bound]\nurl = '{bound}'\n"));
        site
    }

    pub(crate) fn configure(&self, servers: &str) {
        // No test touches the keyring of the user who runs it.
        self.context.user_config(&format!("[store]\nkey = 'file'\n\n{servers}"));
    }

    /// Makes a command without a terminal and without a browser.
    pub(crate) fn bowline(&self, args: &[&str]) -> Command {
        self.context.bowline(args)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.bowline(args).output().expect("bowline starts")
    }

    /// Runs a command that succeeds, and returns its output.
    pub(crate) fn prints(&self, args: &[&str]) -> String {
        assert_printed(args, &self.run(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.prints(args)).expect("JSON")
    }

    /// Runs a command at a terminal, with a browser that the person uses as `how` says.
    pub(crate) fn attended(
        &self,
        chromium: &mut Chromium,
        args: &[&str],
        how: Value,
    ) -> (TerminalExit, Page) {
        let browser = Browser::new(&self.context);
        let mut command = self.bowline(args);
        command.env("BROWSER", &browser.program);
        let person = Person::sits_at(command);
        let page = chromium.visit(&opened_url(&browser), how);
        (person.leaves(), page)
    }

    /// Logs in to `server` successfully.
    pub(crate) fn logs_in(&self, chromium: &mut Chromium, server: &str, how: Value) -> Page {
        let (end, page) = self.attended(chromium, &["login", server], how);
        assert_eq!(end.code, 0, "{}{}\n{page:?}", end.stdout, end.screen);
        assert_eq!((page.status, &*page.title), (Some(200), "You are logged in"), "{page:?}");
        page
    }

    pub(crate) fn record(&mut self) -> Record {
        serde_json::from_value(self.script.ask("record", json!({}))).expect("a record")
    }

    /// Revokes all access tokens that were used so far.
    pub(crate) fn end_access_tokens(&mut self) {
        self.script.ask("end", json!({}));
    }

    /// Uses a spent refresh token as an attacker would, and returns the response.
    pub(crate) fn replay(&mut self) -> Value {
        self.script.ask("replay", json!({}))
    }

    /// Deletes the registered clients from the authorization server.
    pub(crate) fn forget_clients(&mut self) {
        self.script.ask("forget", json!({}));
    }

    /// Serves `text` at `url` to the authorization server.
    pub(crate) fn publish(&mut self, url: &str, text: &str) {
        self.script.ask("publish", json!({ "url": url, "text": text }));
    }

    /// Returns how many of the access tokens used so far are valid.
    pub(crate) fn good_access_tokens(&mut self) -> u64 {
        self.script.ask("good", json!({})).as_u64().expect("a number")
    }
}

impl Record {
    pub(crate) fn requests_to<'a>(&'a self, route: &'a str) -> impl Iterator<Item = &'a Request> {
        self.requests.iter().filter(move |request| request.route == route)
    }

    /// Returns the requests to the token endpoint with this grant.
    pub(crate) fn grants<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Request> {
        self.requests_to("token").filter(move |request| request.params["grant_type"] == kind)
    }

    /// Checks that there were no errors and that no login was revoked.
    pub(crate) fn assert_clean(&self) {
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
        assert_eq!(self.revoked, 0);
    }
}

/// Returns the URL that the browser was given.
pub(crate) fn opened_url(browser: &Browser) -> String {
    browser.opened().strip_prefix("1|").expect("one argument").to_owned()
}

/// Checks that a command succeeded, and returns its output.
pub(crate) fn assert_printed(args: &[&str], output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}
