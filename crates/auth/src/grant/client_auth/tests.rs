//! Which proofs are tried at a real token endpoint, and which one the next request starts with.

use bowline_config::{AuthSettings, ClientSettings};
use bowline_testkit::{AuthClient, AuthFault, AuthServer, with};

use super::*;
use crate::grant::tests::GrantBench;
use crate::testing::{CLIENT_ID, CLIENT_SECRET, ctx};

const BASIC: &str = "client_secret_basic";
const POST: &str = "client_secret_post";

/// An authorization server that expects one method, and a client that assumes another.
async fn start_bench(known: AuthClient, assumed: TokenAuth, offered: Option<&[&str]>) -> GrantBench {
    let mut bench = GrantBench::with_client(known, assumed).await;
    bench.discovery.metadata.token_endpoint_auth_methods_supported =
        offered.map(|names| names.iter().map(ToString::to_string).collect());
    bench
}

/// The method of each request so far.
fn proved(bench: &GrantBench) -> Vec<&'static str> {
    bench.server.received_at("refresh_token").iter().map(|seen| seen.client_auth).collect()
}

fn by_post() -> AuthClient {
    AuthClient::post(CLIENT_ID, CLIENT_SECRET)
}

fn by_basic() -> AuthClient {
    AuthClient::basic(CLIENT_ID, CLIENT_SECRET)
}

// AR-05: the refresh token is still valid after the refusal, and is spent once.
#[tokio::test]
async fn another_method_is_tried_with_the_same_grant_and_remembered() {
    for offered in [None, Some(&[][..]), Some(&[BASIC, POST][..])] {
        let bench = start_bench(by_post(), TokenAuth::Basic, offered).await;
        let had = bench.refresh().await.unwrap();
        assert!(bench.server.is_valid_access_token(had.access.expose()), "{offered:?}");
        assert_eq!(proved(&bench), [BASIC, POST]);
        let sent: Vec<_> = bench.server.received_at("refresh_token");
        assert_eq!(sent[0].field("refresh_token"), sent[1].field("refresh_token"));
        bench.refresh().await.unwrap();
        assert_eq!(proved(&bench), [BASIC, POST, POST]);
        assert_eq!(bench.server.violations(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn after_a_refused_remembered_proof_the_others_are_tried() {
    let bench = start_bench(by_post(), TokenAuth::Basic, None).await;
    bench.refresh().await.unwrap();
    bench.server.edit(|_| AuthServer::builder().client(by_basic()));
    bench.refresh().await.unwrap();
    bench.refresh().await.unwrap();
    assert_eq!(proved(&bench), [BASIC, POST, POST, BASIC, BASIC]);
}

// AX-02
#[tokio::test]
async fn a_method_that_is_not_offered_is_not_tried() {
    let bench = start_bench(by_post(), TokenAuth::Basic, Some(&[BASIC, "none"])).await;
    assert_eq!(bench.refresh().await.unwrap_err().kind, AuthErrorKind::InvalidClient);
    assert_eq!(proved(&bench), [BASIC]);
}

#[tokio::test]
async fn a_configured_method_is_the_only_one() {
    let mut bench = start_bench(by_post(), TokenAuth::Basic, None).await;
    let secret = Some(Secret::new(CLIENT_SECRET));
    let settings = with!(ClientSettings::new(CLIENT_ID), secret: secret, method: Some(TokenAuth::Basic));
    bench.ctx = ctx(with!(AuthSettings::default(), client: Some(settings)));
    assert_eq!(bench.refresh().await.unwrap_err().kind, AuthErrorKind::InvalidClient);
    assert_eq!(proved(&bench), [BASIC]);
}

#[tokio::test]
async fn a_client_without_a_secret_has_one_proof() {
    let bench = start_bench(by_post(), TokenAuth::None, None).await;
    assert_eq!(bench.refresh().await.unwrap_err().kind, AuthErrorKind::InvalidClient);
    assert_eq!(proved(&bench), ["none"]);
}

#[tokio::test]
async fn an_unknown_client_gets_the_first_refusal() {
    let bench = start_bench(by_post(), TokenAuth::Basic, None).await;
    bench.server.arm(AuthFault::error_with(401, "invalid_client", "the first").on("token"));
    bench.server.arm(AuthFault::error_with(401, "invalid_client", "the second").on("token"));
    let error = bench.refresh().await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::InvalidClient);
    assert!(error.what.ends_with("the first"), "{error}");
    assert_eq!(proved(&bench), [BASIC, POST]);
}

#[tokio::test]
async fn only_a_refusal_of_the_client_is_followed_by_another_method() {
    for (code, status, kind) in [
        ("invalid_grant", 400, AuthErrorKind::InvalidGrant),
        ("unauthorized_client", 400, AuthErrorKind::InvalidClient),
        ("invalid_scope", 400, AuthErrorKind::Refused),
        ("invalid_client", 503, AuthErrorKind::Unavailable),
    ] {
        let bench = start_bench(by_basic(), TokenAuth::Basic, None).await;
        bench.server.arm(AuthFault::error_with(status, code, "no").on("token"));
        assert_eq!(bench.refresh().await.unwrap_err().kind, kind, "{code}");
        assert_eq!(proved(&bench), [BASIC], "{code}");
    }
}

// As older versions of the Python SDK respond.
#[tokio::test]
async fn unauthorized_client_with_401_is_a_refusal_of_the_client() {
    let bench = start_bench(by_post(), TokenAuth::Basic, None).await;
    bench.server.arm(AuthFault::error_with(401, "unauthorized_client", "Missing client_id").on("token"));
    bench.refresh().await.unwrap();
    assert_eq!(proved(&bench), [BASIC, POST]);
}

#[tokio::test]
async fn client_id_is_left_out_where_it_counts_as_a_second_credential() {
    let bench = start_bench(by_basic(), TokenAuth::Basic, None).await;
    bench.server.arm(AuthFault::error_with(400, "invalid_request", "multiple credentials").on("token"));
    bench.refresh().await.unwrap();
    bench.refresh().await.unwrap();
    assert_eq!(proved(&bench), [BASIC; 3]);
    let in_body = |seen: &bowline_testkit::ReceivedAuthRequest| seen.field("client_id").is_some();
    let seen = bench.server.received_at("refresh_token");
    assert_eq!(seen.iter().map(in_body).collect::<Vec<_>>(), [true, false, false]);
    // If both forms are refused, the reason is another one.
    let bench = start_bench(by_basic(), TokenAuth::Basic, None).await;
    bench.server.arm(AuthFault::error_with(400, "invalid_request", "no").on("token").always());
    assert_eq!(bench.refresh().await.unwrap_err().kind, AuthErrorKind::Refused);
    assert_eq!(proved(&bench), [BASIC; 2]);
}

// Percent decoders and form decoders read the same.
#[test]
fn a_space_in_a_header_is_an_escape() {
    let header = basic_authorization("a b", &Secret::new("c+d e"));
    let code = header.expose().strip_prefix("Basic ").unwrap();
    assert_eq!(BASE64_STANDARD.decode(code).unwrap(), b"a%20b:c%2Bd%20e");
}
