//! Requests that only legacy servers send: `ping`, elicitations that they cancel, and sampling with
//! tools over several requests.

use std::sync::Arc;

use bowline::host::{
    Elicit, FormRequest, Host, HostFuture, Sample, SampleRequest, SamplingRefusal, UrlRequest,
};
use bowline::types::{Content, ElicitResult, SamplingBlock, SamplingResult};
use bowline::{Client, Json};
use bowline_testkit::with;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::interactive_servers;
use crate::limit::within;

/// PG-01
#[tokio::test]
async fn a_ping_is_answered_during_a_call() {
    within("ping", async {
        for (name, server) in
            interactive_servers().await.into_iter().filter(|(name, _)| name.starts_with("legacy"))
        {
            let client = Client::connect(server).await.unwrap();
            let pong = client.call_tool("ping", &Value::Null).await.unwrap();
            assert_eq!(pong.text(), "pong", "{name}");
            client.close().await;
        }
    })
    .await;
}

/// Counts the forms that are open. Each form stays open until its request is dropped.
#[derive(Clone, Default)]
struct OpenFormCounter(watch::Sender<usize>);

struct OpenForm(watch::Sender<usize>);

impl Drop for OpenForm {
    fn drop(&mut self) {
        self.0.send_modify(|forms| *forms -= 1);
    }
}

impl Elicit for OpenFormCounter {
    fn form(&self, _: FormRequest) -> HostFuture<'_, ElicitResult> {
        self.0.send_modify(|forms| *forms += 1);
        let shown = OpenForm(self.0.clone());
        Box::pin(async move {
            let _shown = shown;
            std::future::pending().await
        })
    }

    fn url(&self, _: UrlRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(async { ElicitResult::Cancel })
    }
}

/// CN-04: the form closes when the server cancels its request.
#[tokio::test]
async fn a_canceled_elicitation_closes_its_form() {
    Box::pin(within("a question", async {
        for (name, server) in
            interactive_servers().await.into_iter().filter(|(name, _)| name.starts_with("legacy"))
        {
            let screen = OpenFormCounter::default();
            let mut forms = screen.0.subscribe();
            let host = Host::new().elicitation(screen);
            let client = Client::builder(server).handler(host).connect().await.unwrap();
            let call = async { client.call_tool("hesitate", &Value::Null).await.unwrap() };
            let person = async {
                forms.wait_for(|forms| *forms == 1).await.unwrap();
                client.call_tool("enough", &Value::Null).await.unwrap();
                forms.wait_for(|forms| *forms == 0).await.unwrap();
            };
            let (result, ()) = tokio::join!(call, person);
            assert_eq!(result.text(), "took it back", "{name}");
            client.close().await;
        }
    }))
    .await;
}

/// A model that calls the tool it is given and then repeats the tool's result.
#[derive(Clone, Default)]
struct ToolUsingModel(Arc<Mutex<Vec<SampleRequest>>>);

impl Sample for ToolUsingModel {
    fn tools(&self) -> bool {
        true
    }

    fn sample(&self, asked: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
        let json = |value: Value| Json::encode(&value).unwrap();
        let last = asked.request.messages.last().and_then(|message| message.content.first());
        let (block, stop_reason) = if let Some(SamplingBlock::ToolResult { content, .. }) = last {
            let Some(Content::Text(length)) = content.first() else { panic!("{content:?}") };
            let text = json(json!({ "type": "text", "text": format!("It is {}.", length.text.get()) }));
            (SamplingBlock::Content(Content::decode(&text).unwrap()), "endTurn")
        } else {
            let (id, name, input) = ("use-1", &*asked.request.tools[0].name, json!({ "unit": "fathoms" }));
            let used = json(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
            let (id, name) = (id.into(), name.into());
            (SamplingBlock::ToolUse { json: used, id, name, input: json(input) }, "toolUse")
        };
        self.0.lock().push(asked);
        let content = vec![block];
        Box::pin(async move {
            Ok(with!(SamplingResult::new("knot-1", content), stop_reason: Some(stop_reason.into())))
        })
    }
}

/// SA-01, SA-04, SA-05, SA-06: tools of one request, used and answered over two requests.
#[tokio::test]
async fn a_model_uses_a_tool_of_the_server() {
    within("sampling", async {
        for (name, server) in
            interactive_servers().await.into_iter().filter(|(name, _)| name.starts_with("legacy"))
        {
            let worker = ToolUsingModel::default();
            let host = Host::new().sampling(worker.clone());
            let client = Client::builder(server).handler(host).connect().await.unwrap();
            let result = client.call_tool("delegate", &Value::Null).await.unwrap();
            assert_eq!(result.text(), "It is 7 \"fathoms\".", "{name}");
            let turns: Vec<usize> =
                worker.0.lock().iter().map(|asked| asked.request.messages.len()).collect();
            assert_eq!(turns, [1, 3], "{name}");
            client.close().await;
        }
    })
    .await;
}
