//! Logins on a page.

use bowline_testkit::{AuthFault, Browser, with, with_query_parameter};

use super::*;

// AF-02, AF-03
#[tokio::test]
async fn a_person_logs_in_and_nobody_listens_any_more() {
    let scene = LoginScene::new().await;
    let (task, page) = scene.start_page().await;
    assert_eq!((&*page.server, page.listening), ("files", true));
    assert_eq!(page.issuer, scene.server.issuer());
    connect_to(&page.redirect).expect("somebody listens");
    let answer = Browser::new().login(page.url.as_str()).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("You are logged in") && answer.body.contains("files"), "{}", answer.body);
    let logged_in = join(task).await.unwrap();
    assert!(scene.server.is_valid_access_token(logged_in.tokens.access.expose()));
    assert_eq!(logged_in.client.id, CLIENT);
    assert!(connect_to(&page.redirect).is_err(), "the listener ends with the login");
    // AF-02: the same resource in both requests.
    for seen in [&scene.server.received_at("authorize")[0], &scene.server.received_at("token")[0]] {
        assert_eq!(seen.field("resource"), Some(RESOURCE));
    }
    assert_eq!(scene.server.violations(), Vec::<String>::new());
}

/// The outcome of a login whose response is altered like this.
async fn login_with_altered_response(
    promised: bool,
    twist: Option<AuthFault>,
) -> (LoginScene, Result<LoginOutcome, AuthError>, bowline_testkit::WebPage) {
    let mut scene = LoginScene::new().await;
    scene.discovery.metadata.authorization_response_iss_parameter_supported = promised;
    if let Some(twist) = twist {
        scene.server.arm(twist);
    }
    let (task, page) = scene.start_page().await;
    let answer = Browser::new().login(page.url.as_str()).await;
    let outcome = join(task).await;
    assert!(scene.server.armed_faults().is_empty());
    assert!(connect_to(&page.redirect).is_err());
    (scene, outcome, answer)
}

// AF-05: every row of its table, through the listener.
#[tokio::test]
async fn the_sender_is_checked_before_the_code_is_spent() {
    let wrong = || AuthFault::wrong_iss("https://evil.example");
    for (promised, twist, good) in [
        (true, None, true),
        (true, Some(wrong()), false),
        (true, Some(AuthFault::normalized_iss()), false),
        (true, Some(AuthFault::no_iss()), false),
        (false, None, true),
        (false, Some(wrong()), false),
        (false, Some(AuthFault::normalized_iss()), false),
        (false, Some(AuthFault::no_iss()), true),
    ] {
        let what = format!("{promised} {twist:?}");
        let (scene, outcome, answer) = login_with_altered_response(promised, twist).await;
        assert_eq!(answer.status, if good { 200 } else { 400 }, "{what}");
        assert_eq!(scene.server.count("token"), usize::from(good), "{what}");
        match outcome {
            Ok(_) => assert!(good, "{what}"),
            Err(error) => assert!(!good && error.kind == AuthErrorKind::Untrusted, "{what}: {error}"),
        }
    }
}

// AF-06: nothing of a foreign response is shown, not even that it is an error.
#[tokio::test]
async fn an_error_of_somebody_else_is_not_shown() {
    let scene = LoginScene::new().await;
    let (task, page) = scene.start_page().await;
    let back = Browser::new().deny().follow(page.url.as_str()).await;
    let back = with_query_parameter(&back, "iss", Some("https://evil.example"));
    let answer =
        Browser::new().visit(&with_query_parameter(&back, "error_description", Some("call 555-1234"))).await;
    let error = join(task).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Untrusted);
    for text in [&error.what, &answer.body] {
        // The whole number, because a port may contain a part of it.
        assert!(!text.contains("555-1234") && !text.contains("access_denied"), "{text}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_and_stays_text() {
    let evil = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>";
    let (scene, outcome, answer) = login_with_altered_response(
        true,
        Some(AuthFault::error_with(302, "access_denied", evil).on("authorize")),
    )
    .await;
    assert_eq!(outcome.unwrap_err().kind, AuthErrorKind::Declined);
    assert_eq!((answer.status, scene.server.count("token")), (400, 0));
    assert!(!answer.body.contains("<script") && !answer.body.contains("<img"), "{}", answer.body);
    assert!(answer.body.contains("&lt;script&gt;"), "{}", answer.body);
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
}

#[tokio::test]
async fn a_code_that_is_not_taken_shows_on_the_page() {
    let (_, outcome, answer) = login_with_altered_response(true, Some(AuthFault::invalid_grant())).await;
    assert_eq!(outcome.unwrap_err().kind, AuthErrorKind::InvalidGrant);
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("The login did not work") && answer.body.contains("invalid_grant"));
}

// AF-03
#[tokio::test]
async fn what_is_not_of_this_login_does_not_end_it() {
    let mut scene = LoginScene::new().await;
    // Otherwise a bare code could pass for pasted input.
    scene.discovery.metadata.authorization_response_iss_parameter_supported = false;
    let (task, page) = scene.start_page().await;
    let back = Browser::new().follow(page.url.as_str()).await;
    let origin = back.split("/callback").next().unwrap();
    for forged in [
        with_query_parameter(&back, "state", Some("forged")),
        with_query_parameter(&back, "state", None),
        with_query_parameter(&back, "code", None),
        format!("{back}&state=forged"),
        format!("{origin}/callback"),
        format!("{origin}/callback?just-a-code"),
        format!("{origin}/callback?error=access_denied"),
    ] {
        let answer = Browser::new().visit(&forged).await;
        assert_eq!(answer.status, 400, "{forged}");
        assert!(answer.body.contains("No login is waiting"), "{forged}: {}", answer.body);
    }
    assert_eq!(Browser::new().visit(&format!("{origin}/favicon.ico")).await.status, 404);
    assert_eq!(scene.server.count("token"), 0);
    assert!(!task.is_finished());
    assert_eq!(Browser::new().visit(&back).await.status, 200);
    join(task).await.unwrap();
}

// AF-04
#[tokio::test]
async fn several_logins_at_once_do_not_mix() {
    let (one, two) = (LoginScene::new().await, LoginScene::new().await);
    let mut begun = Vec::new();
    for scene in [&one, &two, &one, &two] {
        let (task, page) = scene.start_page().await;
        begun.push((scene, task, page));
    }
    let states: std::collections::HashSet<_> = begun
        .iter()
        .map(|(_, _, page)| page.url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned())
        .collect();
    let ports: std::collections::HashSet<_> = begun.iter().map(|(_, _, page)| page.redirect.port()).collect();
    assert_eq!((states.len(), ports.len()), (4, 4));
    // The response to one login at the listener of another belongs to neither.
    let back = Browser::new().follow(begun[0].2.url.as_str()).await;
    let elsewhere = back.replace(begun[0].2.redirect.as_str(), begun[1].2.redirect.as_str());
    assert_eq!(Browser::new().visit(&elsewhere).await.status, 400);
    for (scene, task, page) in begun.into_iter().rev() {
        assert_eq!(Browser::new().login(page.url.as_str()).await.status, 200);
        let tokens = join(task).await.unwrap().tokens;
        assert!(scene.server.is_valid_access_token(tokens.access.expose()));
    }
    assert_eq!(one.server.count("token") + two.server.count("token"), 4);
}

/// Opens the page on another machine, and pastes the address.
struct RemoteBrowser(mpsc::UnboundedSender<LoginPage>);

impl LoginPrompt for RemoteBrowser {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        self.0.send(page.clone()).unwrap();
        Box::pin(async move {
            let back = Browser::new().follow(page.url.as_str()).await;
            PageReply::Pasted(format!("  {back}\n"))
        })
    }

    fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
        unreachable!()
    }

    fn can_paste(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_pasted_address_completes_the_login() {
    let scene = LoginScene::new().await;
    let (pages, mut shown) = mpsc::unbounded_channel();
    let login = scene.login();
    let logged_in = timeout(WAIT, super::super::login(&login, &RemoteBrowser(pages), LoginMethod::Page))
        .await
        .unwrap()
        .unwrap();
    assert!(scene.server.is_valid_access_token(logged_in.tokens.access.expose()));
    assert!(connect_to(&shown.recv().await.unwrap().redirect).is_err());
}

// AF-03: an unusable input is asked for again, with the reason, while the listener keeps waiting.
#[tokio::test]
async fn what_is_pasted_is_checked_and_asked_for_again() {
    for text in ["http://127.0.0.1/callback?code=c&state=forged", "hello", "a-code-that-may-be-one", ""] {
        let scene = LoginScene::new().await;
        let (person, mut shown) = person(Some(PageReply::Pasted(text.into())));
        let task = scene.start(person, LoginMethod::Page);
        let first = shown.pages.recv().await.unwrap();
        assert_eq!(first.rejection, None);
        let again = timeout(WAIT, shown.pages.recv()).await.expect("asked again").unwrap();
        assert_eq!(again.rejection, first.check(text).err(), "{text}");
        assert!(again.rejection.is_some());
        assert_eq!((&again.url, again.listening), (&first.url, true));
        assert_eq!(scene.server.count("token"), 0);
        assert_eq!(Browser::new().login(again.url.as_str()).await.status, 200);
        join(task).await.unwrap();
    }
}

/// Without `iss`, only the authorization server can tell that a code is invalid.
#[tokio::test]
async fn a_code_that_is_not_taken_is_asked_for_again() {
    let mut scene = LoginScene::with(AuthServer::builder().no_iss()).await;
    scene.discovery.metadata.authorization_response_iss_parameter_supported = false;
    let (person, mut shown) = person(Some(PageReply::Pasted("a-code-that-may-be-one".into())));
    let task = scene.start(person, LoginMethod::Page);
    shown.pages.recv().await.unwrap();
    let again = timeout(WAIT, shown.pages.recv()).await.expect("asked again").unwrap();
    assert!(again.rejection.unwrap().contains("rejected"));
    assert_eq!(Browser::new().login(again.url.as_str()).await.status, 200);
    join(task).await.unwrap();
    assert_eq!(scene.server.count("token"), 2);
}

/// Pastes the same text again and again.
struct RepeatedPaste(&'static str);

impl LoginPrompt for RepeatedPaste {
    fn show_page(&self, _: LoginPage) -> PromptFuture<'_, PageReply> {
        let text = self.0.to_owned();
        Box::pin(async move { PageReply::Pasted(text) })
    }

    fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
        unreachable!()
    }
}

#[tokio::test]
async fn unusable_input_ends_the_login_after_some_attempts() {
    let scene = LoginScene::new().await;
    let login = scene.login();
    let outcome =
        timeout(WAIT, super::super::login(&login, &RepeatedPaste("hello"), LoginMethod::Page)).await.unwrap();
    assert_eq!(outcome.unwrap_err().kind, AuthErrorKind::Untrusted);
    assert_eq!(scene.server.count("token"), 0);
}

// AF-06: the error response to this login counts, also if it is pasted.
#[tokio::test]
async fn a_refusal_that_is_pasted_ends_the_login() {
    struct Denied;
    impl LoginPrompt for Denied {
        fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
            assert_eq!(page.rejection, None, "asked once");
            Box::pin(async move { PageReply::Pasted(Browser::new().deny().follow(page.url.as_str()).await) })
        }

        fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
            unreachable!()
        }
    }
    let scene = LoginScene::new().await;
    let login = scene.login();
    let outcome = timeout(WAIT, super::super::login(&login, &Denied, LoginMethod::Page)).await.unwrap();
    assert_eq!(outcome.unwrap_err().kind, AuthErrorKind::Declined);
}

/// If another program uses the port, the login fails, unless the person can paste the address.
#[tokio::test]
async fn without_a_free_port_a_person_can_paste() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut scene = LoginScene::new().await;
    scene.ctx.auth = Arc::new(with!(auth(), redirect: bowline_config::Redirect::Port(port)));
    let (nobody, _shown) = person(None);
    let error = join(scene.start(nobody, LoginMethod::Page)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup, "{error}");

    let (mut somebody, mut shown) = person(None);
    Arc::get_mut(&mut somebody).unwrap().pastes = true;
    let task = scene.start(somebody, LoginMethod::Page);
    let page = timeout(WAIT, shown.pages.recv()).await.expect("asked").unwrap();
    assert_eq!((page.listening, page.redirect.port()), (false, Some(port)));
    assert!(page.listen_error.unwrap().contains(&format!("port {port} is in use")));
    task.abort();

    let (pages, _shown) = mpsc::unbounded_channel();
    let login = scene.login();
    let logged_in = timeout(WAIT, super::super::login(&login, &RemoteBrowser(pages), LoginMethod::Page))
        .await
        .unwrap()
        .unwrap();
    assert!(scene.server.is_valid_access_token(logged_in.tokens.access.expose()));
}

#[tokio::test]
async fn a_login_can_be_given_up() {
    let scene = LoginScene::new().await;
    let (person, mut shown) = person(Some(PageReply::GaveUp));
    let error = join(scene.start(person, LoginMethod::Page)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Declined);
    assert!(connect_to(&shown.pages.recv().await.unwrap().redirect).is_err());
}

#[tokio::test]
async fn a_dropped_login_is_canceled() {
    let scene = LoginScene::new().await;
    let (task, page) = scene.start_page().await;
    connect_to(&page.redirect).unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert!(connect_to(&page.redirect).is_err());
}

#[tokio::test]
async fn a_login_is_not_waited_for_for_ever() {
    let scene = LoginScene::new().await;
    let (person, mut shown) = person(None);
    let error = log_in_by_page(&scene.login(), &*person, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    assert!(connect_to(&shown.pages.recv().await.unwrap().redirect).is_err());
}

// AR-01, AF-07: the registered redirect has a listener, and the next login listens there again.
#[tokio::test]
async fn where_a_browser_comes_back_to_is_what_was_registered() {
    let mut scene = LoginScene::with(AuthServer::builder().exact_redirects()).await;
    scene.ctx.auth = Arc::default();
    let mut redirects = Vec::new();
    for _ in 0..2 {
        let (task, page) = scene.start_page().await;
        assert_eq!(Browser::new().login(page.url.as_str()).await.status, 200);
        assert_eq!(join(task).await.unwrap().client.origin, ClientOrigin::Registered);
        redirects.push(page.redirect);
    }
    assert_eq!(redirects[0], redirects[1]);
    assert_eq!(scene.server.registrations(), 1);
}

#[tokio::test]
async fn a_client_that_is_not_known_any_more_is_registered_anew() {
    let mut scene = LoginScene::new().await;
    scene.ctx.auth = Arc::default();
    let (task, page) = scene.start_page().await;
    let back = Browser::new().follow(page.url.as_str()).await;
    scene.server.forget_registered_clients();
    assert_eq!(Browser::new().visit(&back).await.status, 400);
    assert_eq!(join(task).await.unwrap_err().kind, AuthErrorKind::InvalidClient);
    let (task, page) = scene.start_page().await;
    assert_eq!(Browser::new().login(page.url.as_str()).await.status, 200);
    join(task).await.unwrap();
    assert_eq!(scene.server.registrations(), 2);
}

// AX-06
#[tokio::test]
async fn a_login_can_be_bound_to_a_key() {
    let scene = LoginScene::with(AuthServer::builder().dpop_only().dpop_nonce()).await;
    let key = dpop::Key::load_or_create(&scene.ctx.store, "files").await.unwrap();
    let (person, mut shown) = person(None);
    let login = LoginParams { dpop: Some(&key), ..scene.login() };
    let browser = async {
        let page = shown.pages.recv().await.unwrap();
        Browser::new().login(page.url.as_str()).await
    };
    let (outcome, answer) = tokio::join!(super::super::login(&login, &*person, LoginMethod::Page), browser);
    assert_eq!(outcome.unwrap().tokens.scheme, crate::tokens::Scheme::Dpop);
    assert_eq!(answer.status, 200);
}
