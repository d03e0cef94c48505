//! One authorization server, the MCP servers that it protects, and a home in which they are configured as `docs`
//! and `bound`.

use std::process::Output;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::chromium::{Chromium, Page};
use crate::context::{Command, Context};
use crate::pty::{End, Person};
use crate::script::Script;

pub(crate) struct Site {
    pub(crate) context: Context,
    pub(crate) issuer: String,
    pub(crate) mcp: String,
    pub(crate) dpop: String,
    /// What clients that are their own account prove themselves with.
    pub(crate) machines: Value,
    script: Script,
}

/// What the servers have seen.
#[derive(Debug, Deserialize)]
pub(crate) struct Record {
    /// What the authorization server was asked for by us and by the browser.
    pub(crate) requests: Vec<Request>,
    /// What the authorization server did not like.
    pub(crate) complaints: Vec<Complaint>,
    /// How many logins the authorization server has ended.
    pub(crate) revoked: u32,
    /// What the MCP servers were asked for.
    pub(crate) shown: Vec<Shown>,
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
pub(crate) struct Shown {
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) scheme: Option<String>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(json!({}))
    }

    /// `lifetime`: how many seconds access tokens live. `nonces`: whether proofs need one. `method`: the only way for
    /// clients to prove themselves.
    pub(crate) fn with(how: Value) -> Self {
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
        // No test touches the keyring of whoever runs it.
        self.context.user_config(&format!("[store]\nkey = 'file'\n\n{servers}"));
    }

    /// Without a terminal and without a browser.
    pub(crate) fn bowline(&self, args: &[&str]) -> Command {
        self.context.bowline(args)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.bowline(args).output().expect("bowline starts")
    }

    /// What is printed by one that ends well.
    pub(crate) fn prints(&self, args: &[&str]) -> String {
        printed(args, &self.run(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.prints(args)).expect("JSON")
    }

    /// At a terminal, with a browser that the person uses as `how` says.
    pub(crate) fn attended(&self, chromium: &mut Chromium, args: &[&str], how: Value) -> (End, Page) {
        let browser = Browser::new(&self.context);
        let mut command = self.bowline(args);
        command.env("BROWSER", &browser.program);
        let person = Person::sits_at(command);
        let page = chromium.visit(&opened(&browser), how);
        (person.leaves(), page)
    }

    /// A login to `server` that goes well.
    pub(crate) fn logs_in(&self, chromium: &mut Chromium, server: &str, how: Value) -> Page {
        let (end, page) = self.attended(chromium, &["login", server], how);
        assert_eq!(end.code, 0, "{}{}\n{page:?}", end.stdout, end.screen);
        assert_eq!((page.status, &*page.title), (Some(200), "You are logged in"), "{page:?}");
        page
    }

    pub(crate) fn record(&mut self) -> Record {
        serde_json::from_value(self.script.ask("record", json!({}))).expect("a record")
    }

    /// The access tokens that were shown so far end now.
    pub(crate) fn end_access_tokens(&mut self) {
        self.script.ask("end", json!({}));
    }

    /// Somebody else shows a refresh token that was used; gives the answer.
    pub(crate) fn replay(&mut self) -> Value {
        self.script.ask("replay", json!({}))
    }

    /// The authorization server loses the clients that registered.
    pub(crate) fn forget_clients(&mut self) {
        self.script.ask("forget", json!({}));
    }

    /// The authorization server finds `text` at `url`.
    pub(crate) fn publish(&mut self, url: &str, text: &str) {
        self.script.ask("publish", json!({ "url": url, "text": text }));
    }

    /// How many of the access tokens that were shown so far are good.
    pub(crate) fn good_access_tokens(&mut self) -> u64 {
        self.script.ask("good", json!({})).as_u64().expect("a number")
    }
}

impl Record {
    pub(crate) fn of<'a>(&'a self, route: &'a str) -> impl Iterator<Item = &'a Request> {
        self.requests.iter().filter(move |request| request.route == route)
    }

    /// Requests to the token endpoint for this kind of grant.
    pub(crate) fn grants<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Request> {
        self.of("token").filter(move |request| request.params["grant_type"] == kind)
    }

    /// Nothing was wrong, and no login has ended.
    pub(crate) fn is_clean(&self) {
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
        assert_eq!(self.revoked, 0);
    }
}

/// The address that the browser was given.
pub(crate) fn opened(browser: &Browser) -> String {
    browser.opened().strip_prefix("1|").expect("one argument").to_owned()
}

/// What is printed by one that ended well.
pub(crate) fn printed(args: &[&str], output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}
