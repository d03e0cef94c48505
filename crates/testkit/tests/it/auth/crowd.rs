//! The server with many clients at once.

use super::*;
use bowline_testkit::{AuthClient, AuthServer};
use std::sync::Arc;

/// Twenty clients, each with its own login and connection, refresh as fast as they can: no response
/// is mixed up.
#[tokio::test]
async fn a_crowd_refreshes() {
    const CLIENTS: u64 = 20;
    const ROUNDS: u64 = 50;
    let auth = Arc::new(AuthServer::builder().client(AuthClient::public("app")).start().await);
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let auth = auth.clone();
        crowd.spawn(async move {
            let stream = TcpStream::connect(auth.addr()).await.unwrap();
            let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let mut held = auth.issue("app", "a", RESOURCE).refresh_token;
            for _ in 0..ROUNDS {
                let form = form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(refresh_form("app", &held))
                    .finish();
                let request = Request::post("/token")
                    .header("host", "localhost")
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(Full::new(Bytes::from(form)))
                    .unwrap();
                let body = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
                let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
                held = answer["refresh_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
            }
        });
    }
    within_timeout(crowd.join_all()).await;
    assert_eq!((auth.refreshes(), auth.reuse_detected()), (CLIENTS * ROUNDS, 0));
    assert_eq!(auth.count("refresh_token") as u64, CLIENTS * ROUNDS);
}
