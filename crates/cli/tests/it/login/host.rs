//! A login for `bowline connect`, which has nobody to ask: it uses what another bowline has.

use serde_json::json;

use super::Site;
use crate::connect::host::Host;

#[tokio::test]
async fn a_host_uses_the_login_of_its_person() {
    let site = Site::new().await;
    site.logs_in().await;
    let mut host = Host::greeted(site.bowline(&["connect", "docs"])).await;
    let answer = host.ask("tools/call", json!({"name": "echo", "arguments": {"message": "ahoy"}})).await;
    assert!(answer["result"].to_string().contains("ahoy"), "{answer}");
    let ended = host.close().await;
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), ""));
}

/// A host that comes too early is told so, and is served as soon as somebody has logged in, without a restart.
#[tokio::test]
async fn a_login_elsewhere_is_enough() {
    let site = Site::new().await;
    let mut host = Host::start(site.bowline(&["connect", "docs"]));
    let refused = host.greet().await;
    assert!(refused["error"]["message"].to_string().contains("login"), "{refused}");
    site.logs_in().await;
    let greeted = host.greet().await;
    assert!(greeted["result"].is_object(), "{greeted}");
    let answer = host.ask("tools/call", json!({"name": "echo", "arguments": {"message": "ahoy"}})).await;
    assert!(answer["result"].to_string().contains("ahoy"), "{answer}");
    let ended = host.close().await;
    assert!(ended.stderr.contains("`docs` wants a login: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("run `bowline login docs`"), "{}", ended.stderr);
    assert_eq!(site.auth.authorizations(), 1);
}
