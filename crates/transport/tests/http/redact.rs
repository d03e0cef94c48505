//! Our secrets are removed from responses, wherever a server repeats them.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::support::{
    RecordedRequest, Server, body_events, body_json, config_with, json, link_to, post, reply, stream, with,
};
use bowline_proto::fault::Cause;
use bowline_transport::Redactor;
use bowline_transport::http::{Credentials, HttpResponse, ResponseBody};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use url::Url;

/// Signs with one token, and reports it as a secret.
#[derive(Debug)]
struct Signer(Mutex<String>);

impl Credentials for Signer {
    fn sign(&self, _: &Method, _: &Url, headers: &mut HeaderMap) {
        let token = self.0.lock().parse().unwrap();
        headers.insert(AUTHORIZATION, token);
    }

    fn redactor(&self) -> Option<Arc<Redactor>> {
        Some(Arc::new(Redactor::new([Redactor::secret_in_header(&self.0.lock())])))
    }
}

const KEY: &str = "swordfish-0123";

/// Posts with secret headers and returns the response.
async fn post_with_secrets(server: Server) -> HttpResponse {
    let config = config_with(
        &format!("http://{}/mcp", server.address),
        &[("X-Api-Key", KEY), ("X-Team", "red-herring")],
    );
    let signer = Arc::new(Signer(Mutex::new("Bearer hunter2hunter2".to_owned())));
    post(&link_to(&config).with_credentials(signer)).await.unwrap()
}

/// All headers that were sent, as the server repeats them.
fn echo_headers(seen: &RecordedRequest) -> String {
    ["authorization", "x-api-key", "x-team"].map(|name| seen.headers[name].to_str().unwrap()).join(" ")
}

const REDACTED_HEADERS: &str = "Bearer [redacted] [redacted] red-herring";

#[tokio::test]
async fn a_result_and_an_error_are_redacted() {
    for status in [200, 400] {
        let server = Server::start(move |seen: RecordedRequest| {
            let said = format!(r#"{{"id":1,"error":{{"code":1,"message":"{}"}}}}"#, echo_headers(&seen));
            std::future::ready(reply(status, "application/json", said))
        })
        .await;
        let body = body_json(post_with_secrets(server).await);
        // In an error response every configured header is removed.
        let shown = if status == 200 { REDACTED_HEADERS } else { "Bearer [redacted] [redacted] [redacted]" };
        let expected = format!(r#"{{"id":1,"error":{{"code":1,"message":"{shown}"}}}}"#);
        assert_eq!(body, expected, "{status}");
    }
}

#[tokio::test]
async fn what_is_no_message_is_redacted() {
    let server =
        Server::start(async |seen: RecordedRequest| reply(200, "text/html", echo_headers(&seen))).await;
    match post_with_secrets(server).await.body {
        ResponseBody::Other(body) => assert_eq!(body, REDACTED_HEADERS),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_challenge_is_redacted() {
    let server = Server::start(async |seen: RecordedRequest| {
        let challenge =
            format!("Bearer error=\"invalid_token\", error_description=\"{}\"", echo_headers(&seen));
        with(reply(401, "", ""), "www-authenticate", &challenge)
    })
    .await;
    let answer = post_with_secrets(server).await;
    let expected = format!("Bearer error=\"invalid_token\", error_description=\"{REDACTED_HEADERS}\"");
    assert_eq!(answer.header("www-authenticate"), Some(&*expected));
}

// A stream outlives a token.
#[tokio::test]
async fn events_are_redacted_with_the_secrets_of_the_moment() {
    let (events, answer) = stream(200, "text/event-stream");
    let answer = Mutex::new(Some(answer));
    let server = Server::start(move |_| {
        let answer = answer.lock().take();
        std::future::ready(answer.unwrap_or_else(|| json("{}")))
    })
    .await;
    let signer = Arc::new(Signer(Mutex::new("Bearer hunter2hunter2".to_owned())));
    let link = server.link().with_credentials(Arc::clone(&signer) as Arc<dyn Credentials>);
    let mut stream = body_events(link.get(&HeaderMap::new()).await.unwrap());
    let said = Bytes::from_static(b"data: {\"a\":\"hunter2hunter2 hunter3hunter3\"}\n\n");
    events.send(said.clone()).await.unwrap();
    let data = stream.next().await.unwrap().unwrap().data;
    assert_eq!(data, r#"{"a":"[redacted] hunter3hunter3"}"#);
    *signer.0.lock() = "Bearer hunter3hunter3".to_owned();
    events.send(said).await.unwrap();
    let data = stream.next().await.unwrap().unwrap().data;
    assert_eq!(data, r#"{"a":"hunter2hunter2 [redacted]"}"#);
}

/// A server chooses the target of a redirect, so it may contain the token that we just sent.
#[tokio::test]
async fn the_address_of_a_refused_redirect_is_redacted() {
    for place in
        ["/%TOKEN%", "/a?access_token=%TOKEN%", "/a#%TOKEN%", "/b/%TOKEN%?t=%TOKEN%", "//u:%TOKEN%@h/"]
    {
        let server = Server::start(move |seen: RecordedRequest| {
            let token =
                Redactor::secret_in_header(seen.headers["authorization"].to_str().unwrap()).to_owned();
            let place = place.replace("%TOKEN%", &token);
            let origin = if place.starts_with("//") { "http:" } else { "http://elsewhere.example" };
            std::future::ready(with(reply(307, "", ""), "location", &format!("{origin}{place}")))
        })
        .await;
        let signer = Arc::new(Signer(Mutex::new("Bearer hunter2hunter2".to_owned())));
        let config = config_with(&format!("http://{}/mcp", server.address), &[]);
        let fault = post(&link_to(&config).with_credentials(signer)).await.unwrap_err();
        assert!(matches!(fault.cause, Cause::Redirect { .. }), "{place}: {fault:?}");
        assert!(!format!("{fault} {fault:?}").contains("hunter2hunter2"), "{place}: {fault:?}");
    }
}
