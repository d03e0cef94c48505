//! The server in its own process, and with many clients at once.

use super::*;
use bowline_testkit::{AuthClient, AuthServer};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

#[tokio::test]
async fn another_process_serves() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_testkit-auth"))
        .args([r#"{"path": "/t", "clients": [{"id": "app", "method": "none"}]}"#, r#"{"tools": ["echo"]}"#])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let place: Value = serde_json::from_str(&line).unwrap();
    let said = get(place["url"].as_str().unwrap()).await;
    assert_eq!(said.status, 401);
    let origin = place["origin"].as_str().unwrap();
    assert_eq!(place["issuer"], format!("{origin}/t"));
    let refused =
        post_with(&format!("{origin}/t/token"), &refresh_form("app", "made-up"), &[]).await.unwrap();
    assert_eq!(refused.error(), (400, "invalid_grant".into()));
    let counts = get(&format!("{origin}/counts")).await.json();
    assert_eq!((&counts["tokens"]["refresh_token"], &counts["unauthorized"]), (&json!(1), &json!(1)));
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
}

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
