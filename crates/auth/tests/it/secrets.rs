//! No token appears in a log (TK-03).

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use bowline_config::{AuthSettings, Dpop};
use bowline_testkit::{AuthFault, Protection, SECRET_PREFIX, auth_server, with};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{TEST_TIMEOUT, TestStage};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

// TK-03
#[test]
fn tk_03_nothing_secret_is_logged_or_shown() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(log.clone())
        .finish();
    // A single thread, so that spawned tasks log here too.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut shown = String::new();
    tracing::subscriber::with_default(subscriber, || runtime.block_on(everything(&mut shown)));
    let text = String::from_utf8(log.0.lock().clone()).unwrap() + &shown;
    assert!(text.contains("the token is refreshed"), "the log is there: {text}");
    let at = text.find(SECRET_PREFIX);
    assert!(at.is_none(), "{}", &text[at.unwrap_or(0)..][..80]);
}

/// Runs a login through everything. The test authorization server marks all its secrets.
async fn everything(shown: &mut String) {
    let stage = TestStage::with(auth_server().dpop_nonce(), Protection::dpop_nonce).await;
    let host = stage.client_with_auth(with!(AuthSettings::default(), dpop: Dpop::Auto));
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    stage.auth.revoke_all_access();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    let account = host.account().await;
    for twist in [AuthFault::status(500), AuthFault::error("invalid_request"), AuthFault::invalid_client()] {
        stage.auth.revoke_all_access();
        stage.auth.arm(twist.on("refresh_token"));
        let host = stage.client_without_person();
        host.identity.load().await.unwrap();
        let error = host.call("tools/list").await.unwrap_err();
        write!(shown, "{error:?} {error} {:?} {:?}", host.identity, host.identity.credentials()).unwrap();
    }
    stage.auth.revoke_all();
    let error = stage.client_without_person().call("tools/list").await.unwrap_err();
    let refusal = host.send("tools/list").await.unwrap_err();
    let begun = host.identity.begin_login(&bowline_auth::LoginOptions::default()).await.unwrap();
    assert!(begun.url.as_str().starts_with(stage.auth.origin()));
    let json = serde_json::json!(account);
    write!(shown, "{account:?} {json} {error:?} {refusal:?} {:?}", stage.store).unwrap();
    host.identity.logout().await.unwrap();
    tokio::time::timeout(TEST_TIMEOUT, host.identity.shut_down()).await.unwrap().unwrap();
}
