//! Logins with a device code.

use bowline_testkit::{AuthFault, with};

use super::*;

async fn scene() -> LoginScene {
    // One second, the shortest accepted interval.
    LoginScene::with(AuthServer::builder().device(Duration::from_secs(1))).await
}

#[tokio::test]
async fn a_code_is_confirmed_on_another_device() {
    let scene = scene().await;
    let (person, mut shown) = person(None);
    let task = scene.start(person, LoginMethod::Device);
    let code = shown.codes.recv().await.unwrap();
    assert_eq!(code.code, scene.server.user_codes()[0]);
    assert_eq!(code.url.as_str(), scene.server.endpoint("verify"));
    assert!(code.complete_url.unwrap().as_str().ends_with(&code.code));
    scene.server.wait_for(|seen| seen.error.as_deref() == Some("authorization_pending"), WAIT).await;
    scene.server.approve_device(&code.code);
    let tokens = join(task).await.unwrap().tokens;
    assert!(scene.server.is_valid_access_token(tokens.access.expose()));
    for seen in [&scene.server.received_at("device")[0], &scene.server.received_at("device_code")[0]] {
        assert_eq!(seen.field("resource"), Some(RESOURCE));
        assert_eq!(seen.client_id.as_deref(), Some(CLIENT));
    }
}

#[tokio::test]
async fn a_server_that_is_away_for_a_moment_is_asked_again() {
    let scene = scene().await;
    scene.server.arm(AuthFault::status(503).on("device_code"));
    let (person, mut shown) = person(None);
    let task = scene.start(person, LoginMethod::Device);
    scene.server.approve_device(&shown.codes.recv().await.unwrap().code);
    join(task).await.unwrap();
    assert_eq!(scene.server.count("device_code"), 2);
}

#[tokio::test]
async fn a_person_can_decline_on_the_other_device() {
    let scene = scene().await;
    let (person, mut shown) = person(None);
    let task = scene.start(person, LoginMethod::Device);
    scene.server.deny_device(&shown.codes.recv().await.unwrap().code);
    let error = join(task).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Declined);
    // Worded like a login on a page.
    assert_eq!(error.what, "the login was refused: access_denied");
    assert_eq!(scene.server.count("device_code"), 1);
}

#[tokio::test]
async fn what_is_asked_for_is_shown() {
    let scene = scene().await;
    let (person, mut shown) = person(None);
    let scopes = ["docs:read".to_owned()];
    let login = LoginParams { scopes: &scopes, ..scene.login() };
    tokio::select! {
        _ = super::super::login(&login, &*person, LoginMethod::Device) => unreachable!("nobody has confirmed it"),
        code = shown.codes.recv() => assert_eq!(code.unwrap().scopes, scopes),
    }
}

#[tokio::test]
async fn a_person_can_give_up_on_this_device() {
    let scene = scene().await;
    let (mut someone, _shown) = person(None);
    Arc::get_mut(&mut someone).unwrap().gives_up = true;
    assert_eq!(
        join(scene.start(someone, LoginMethod::Device)).await.unwrap_err().kind,
        AuthErrorKind::Declined
    );
}

#[tokio::test]
async fn a_code_ends() {
    let scene = scene().await;
    scene.server.arm(AuthFault::error("expired_token").on("device_code"));
    let (first, _shown) = person(None);
    let error = join(scene.start(first, LoginMethod::Device)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    // It also expires by our own clock, without another request.
    scene.server.arm(AuthFault::set_member("expires_in", 1).on("device"));
    let (second, _shown) = person(None);
    let error = join(scene.start(second, LoginMethod::Device)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    assert_eq!(scene.server.count("device_code"), 1);
}

// SE-03: the authorization server chooses both pages.
#[tokio::test]
async fn a_code_is_not_shown_for_a_page_of_somebody_else() {
    for page in ["verification_uri", "verification_uri_complete"] {
        let scene = scene().await;
        scene.server.arm(AuthFault::set_member(page, "https://accounts.example.org/device").on("device"));
        let (person, mut shown) = person(None);
        let error = join(scene.start(person, LoginMethod::Device)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup, "{page}");
        assert!(error.what.contains("accounts.example.org"), "{error}");
        assert!(shown.codes.try_recv().is_err());
        assert_eq!(scene.server.count("device_code"), 0);
    }
}

#[tokio::test]
async fn missing_device_support_is_reported() {
    let mut scene = LoginScene::new().await;
    scene.discovery.metadata.device_authorization_endpoint = None;
    let (person, _shown) = person(None);
    assert_eq!(join(scene.start(person, LoginMethod::Device)).await.unwrap_err().kind, AuthErrorKind::Setup);
}

#[tokio::test]
async fn a_device_code_is_used_without_a_browser() {
    struct Blind;
    impl LoginPrompt for Blind {
        fn show_page(&self, _: LoginPage) -> PromptFuture<'_, PageReply> {
            unreachable!()
        }

        fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
            unreachable!()
        }

        fn has_browser(&self) -> bool {
            false
        }
    }
    let mut scene = LoginScene::new().await;
    let (sighted, _shown) = person(None);
    let choose = |scene: &LoginScene, prompt: &dyn LoginPrompt| {
        LoginMethod::choose(&scene.ctx.auth, &scene.discovery, prompt)
    };
    assert_eq!(choose(&scene, &*sighted), LoginMethod::Page);
    assert_eq!(choose(&scene, &Blind), LoginMethod::Device);
    scene.discovery.metadata.device_authorization_endpoint = None;
    assert_eq!(choose(&scene, &Blind), LoginMethod::Page);
    scene.ctx.auth = Arc::new(with!(AuthSettings::default(), grant: Grant::Device));
    assert_eq!(choose(&scene, &*sighted), LoginMethod::Device);
}
