//! Requests of a FastMCP server: one [`Host`] answers them in both eras, over both transports.

use std::collections::BTreeMap;

use bowline::config::Protocol;
use bowline::host::{Host, Root, Roots};
use bowline::types::{Content, ElicitResult, LogLevel, LogMessage, ResourceBody};
use bowline::{CallOptions, Client, Era, ErrorKind, Event, Reference, Topic};
use serde_json::{Value, json};

use crate::Peer;
use crate::limit::within;
use crate::scripted_host::{ScriptedModel, ScriptedPerson, accept_with};

const SCRIPT: &str = "fastmcp_asking_server.py";

/// MR-01 to MR-05 and MR-08, EL-09, LG-02, CP-01, CP-02, CA-01, CA-04
#[tokio::test]
async fn over_stdio_in_the_modern_era() {
    run_all_checks(Peer::stdio(SCRIPT), Protocol::Modern).await;
}

/// SA-06, RT-01, EL-08, EL-09, LG-01, CP-01, CP-02
#[tokio::test]
async fn over_stdio_in_the_legacy_era() {
    run_all_checks(Peer::stdio(SCRIPT), Protocol::Legacy).await;
}

/// MR-01 to MR-05 and MR-08, EL-09, LG-02, CP-01, CP-02, CA-01, CA-04
#[tokio::test]
async fn over_http_in_the_modern_era() {
    run_all_checks(Peer::http(SCRIPT).await, Protocol::Modern).await;
}

/// SA-06, RT-01, EL-08, EL-09, LG-01, CP-01, CP-02
#[tokio::test]
async fn over_http_in_the_legacy_era() {
    run_all_checks(Peer::http(SCRIPT).await, Protocol::Legacy).await;
}

/// The client, and the host whose person and model answer its server.
struct HostFixture {
    client: Client,
    desk: ScriptedPerson,
    model: ScriptedModel,
    era: Era,
}

/// Runs all checks on one connection, because starting Python takes longer than all of them.
async fn run_all_checks(peer: Peer, era: Protocol) {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| accept_with(&json!({ "name": name }));
    let accept = ElicitResult::Accept(None);
    let desk = ScriptedPerson::new([
        name("Ann"),
        name("clove hitch"),
        accept,
        ElicitResult::Decline,
        name("Ben"),
        name("Cy"),
    ]);
    let model = ScriptedModel::new(Ok("Mind the bight."));
    let roots = Roots::new([Root::folder(folder.path()).unwrap().with_name("the loft")]);
    let host = Host::new().roots(roots).elicitation(desk.clone()).sampling(model.clone());
    let server = peer.server.clone().with_protocol(era);
    let client = within("connect", Client::builder(server).handler(host).connect()).await.unwrap();
    let era = client.peer().await.unwrap().era();
    let asked = HostFixture { client, desk, model, era };
    within("several questions", asked.check_several_requests_in_one_call()).await;
    within("pages", asked.check_url_elicitation()).await;
    within("prompts and reads", asked.check_prompts_and_reads_that_ask()).await;
    within("logging", asked.check_log_levels()).await;
    within("completion", asked.check_completion()).await;
    within("caching", asked.check_caching()).await;
    within("subscriptions", asked.check_missing_subscriptions()).await;
    asked.client.close().await;
}

impl HostFixture {
    /// MR-02, MR-03, MR-04, MR-05, MR-08: three input requests in one round and one in the next,
    /// each round with its own state. In the legacy era (SA-06, RT-01, EL-08) they are single
    /// requests.
    async fn check_several_requests_in_one_call(&self) {
        let result = self.client.call_tool("interview", &Value::Null).await.unwrap();
        assert_eq!(result.text(), "Ann, in the loft: Mind the bight. (clove hitch)");
        let forms = self.desk.forms();
        let messages: Vec<&str> = forms.iter().map(|asked| &*asked.form.message).collect();
        assert_eq!(messages, ["Who?", "What knot?"]);
        let models = self.model.requests();
        let [asked] = &*models else { panic!("{models:?}") };
        assert_eq!(asked.request.max_tokens, 9);
        let during = (self.era == Era::Modern).then_some("tools/call interview");
        assert_eq!((asked.purpose.as_deref(), forms[0].purpose.as_deref()), (during, during));
    }

    /// EL-09, EL-10, MR-07: a refusal by the person is a valid response.
    async fn check_url_elicitation(&self) {
        for action in ["accept", "decline"] {
            let page = json!({ "url": "https://example.org/mast" });
            let result = self.client.call_tool("visit", &page).await.unwrap();
            assert_eq!(result.text(), action);
        }
        let pages = self.desk.pages();
        assert_eq!(pages.len(), 2);
        assert_eq!(&*pages[0].elicitation.url, "https://example.org/mast");
        assert_eq!(
            pages[0].elicitation.id.is_some(),
            self.era == Era::Legacy,
            "the modern era has no such ids"
        );
    }

    /// MR-01, RS-04, CA-04: a result that needed input is not cached.
    async fn check_prompts_and_reads_that_ask(&self) {
        let arguments = BTreeMap::from(
            [("fiber", "hemp"), ("knot", "bowline")].map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let prompt = self.client.get_prompt("teach", &arguments).await.unwrap();
        let Content::Text(text) = &prompt.messages[0].content else { panic!("{prompt:?}") };
        let read = self.client.read_resource("rig://secret").await.unwrap();
        let ResourceBody::Text(secret) = &read.contents[0].body else { panic!("{read:?}") };
        let (taught, told) = match self.era {
            Era::Modern => ("Teach Ben a bowline in hemp", "told Cy"),
            Era::Legacy => ("Teach me a bowline in hemp", "told"),
        };
        assert_eq!((&*text.text.get(), &*secret.get()), (taught, told));
        if self.era == Era::Modern {
            let forms = self.desk.forms();
            let during: Vec<_> = forms[2..].iter().map(|asked| asked.purpose.as_deref().unwrap()).collect();
            assert_eq!(during, ["prompts/get teach", "resources/read rig://secret"]);
            // No prepared response is left, so the repeated request is dismissed.
            let again = self.client.read_resource("rig://secret").await;
            assert!(again.is_err(), "{again:?}");
            assert_eq!(self.desk.forms().len(), 5);
        }
    }

    /// LG-01 in the legacy era, LG-02 in the modern one: one call sets the level in both.
    async fn check_log_levels(&self) {
        use LogLevel::{Debug, Error, Info, Warning};
        self.client.set_log_level(Warning).await.unwrap();
        assert_eq!(self.logged_levels(&CallOptions::new()).await, [Warning, Error]);
        if self.era == Era::Modern {
            // A single call can ask for a lower level.
            let options = CallOptions::new().log_level(Debug);
            assert_eq!(self.logged_levels(&options).await, [Debug, Info, Warning, Error]);
            assert_eq!(self.logged_levels(&CallOptions::new()).await, [Warning, Error]);
        }
    }

    /// Returns the levels of the server's log lines during a call, up to its last one.
    async fn logged_levels(&self, options: &CallOptions) -> Vec<LogLevel> {
        let mut events = self.client.events();
        self.client.call_tool_with("mumble", &Value::Null, options).await.unwrap();
        let mut levels = Vec::new();
        while levels.last() != Some(&LogLevel::Error) {
            if let Event::Notification(said) = events.next().await.unwrap()
                && let Topic::Log(log) = said.topic()
            {
                levels.push(LogMessage::decode(log).unwrap().level);
            }
        }
        levels
    }

    /// CP-01, CP-02
    async fn check_completion(&self) {
        let suggested =
            async |reference: &Reference<'_>, argument: &str, value: &str, fiber: Option<&str>| {
                let context = fiber.map(|fiber| ("fiber".to_owned(), fiber.to_owned()));
                let context = BTreeMap::from_iter(context);
                let completion = self.client.complete(reference, argument, value, &context).await.unwrap();
                completion.values.into_iter().map(String::from).collect::<Vec<_>>()
            };
        let prompt = Reference::Prompt("teach");
        assert_eq!(suggested(&prompt, "fiber", "", None).await, ["hemp", "nylon"]);
        assert_eq!(suggested(&prompt, "knot", "", Some("hemp")).await, ["bowline", "sheet bend"]);
        assert_eq!(suggested(&prompt, "knot", "", Some("nylon")).await, ["zeppelin bend"]);
        assert_eq!(
            suggested(&Reference::Resource("rig://mast/{height}"), "height", "15", None).await,
            ["15"]
        );
    }

    /// CA-01: modern results carry a time to live. Legacy results do not, and are fetched each
    /// time.
    async fn check_caching(&self) {
        let look = async || {
            self.client.list_tools().await.unwrap();
            self.client.read_resource("rig://plain").await.unwrap();
        };
        look().await;
        let before = self.request_counts().await;
        for _ in 0..3 {
            look().await;
        }
        let after = self.request_counts().await;
        let again = if self.era == Era::Modern { 0 } else { 3 };
        assert_eq!([after[0] - before[0], after[1] - before[1]], [again, again]);
    }

    async fn request_counts(&self) -> [u32; 2] {
        let result = self.client.call_tool("asked", &Value::Null).await.unwrap();
        result.result.structured.unwrap().member("result").unwrap().decode().unwrap()
    }

    /// RS-03, SB-01: FastMCP offers no subscriptions in either era, so none is requested.
    async fn check_missing_subscriptions(&self) {
        let peer = self.client.peer().await.unwrap();
        assert!(!peer.capabilities.resources.unwrap().subscribe);
        let error = self.client.subscribe("rig://plain").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotOffered(_)), "{error}");
    }
}
