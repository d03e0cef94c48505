//! Every fault of the test kit, with the tests of how `bowline doctor` names it: a new kind of fault, rule or
//! ending without an entry here does not compile, and a new option of a scripted authorization server or of its
//! protection fails a test. Faults of steps that only a login takes are listed in docs/doctor.md.

use std::time::Duration;

use bowline_testkit::{AuthFaultKind, CannedResponse, ConnectionEnd, FaultKind, FlowRules, ProxyRules};
use serde_json::Value;

use super::{auth_options, authorization, dpop, fault_proxy, faults, processes};

/// A test, named by its function so that it exists.
type Test = fn();

/// Returns the tests of a fault of the server, over HTTP and as a process.
fn tests_of_fault(kind: &FaultKind) -> &'static [Test] {
    match kind {
        FaultKind::Answer(_) => &[
            faults::status_400_is_named,
            faults::status_403_is_named,
            faults::status_404_is_named,
            faults::status_405_is_named,
            faults::status_500_is_named,
            faults::status_502_is_named,
            faults::retry_after_is_named,
            faults::long_retry_after_is_named,
            faults::web_page_is_named,
            faults::redirect_to_another_host_is_named,
            faults::redirect_to_itself_is_named,
        ],
        FaultKind::CutAfter(_) => {
            &[faults::cut_response_is_named, faults::cut_list_is_named, processes::cut_message_is_named]
        }
        FaultKind::EndAfter(_) => &[faults::ended_stream_is_named],
        FaultKind::Reset => &[faults::reset_request_is_named, faults::reset_on_accept_is_named],
        FaultKind::Close => &[faults::closed_connection_is_named],
        FaultKind::Silent => {
            &[faults::silence_is_named, faults::silence_in_a_list_is_named, processes::silence_is_named]
        }
        FaultKind::DelayMs(_) => &[faults::short_delay_is_no_fault],
        FaultKind::Raw { .. } => &[
            faults::malformed_message_is_named,
            faults::other_media_type_is_named,
            processes::malformed_message_is_named,
        ],
        FaultKind::DropSessions => &[faults::lost_session_is_named],
        FaultKind::Reply(_) => &[
            faults::bad_handshake_result_is_named,
            faults::bad_list_is_named,
            faults::malformed_element_is_named,
            faults::unknown_revision_is_named,
        ],
        FaultKind::Error(_) => &[
            faults::refused_handshake_is_named,
            faults::refused_list_is_named,
            processes::refused_list_is_named,
        ],
        FaultKind::Exit(_) => {
            &[processes::exit_instead_of_a_handshake_is_named, processes::exit_in_a_request_is_named]
        }
        FaultKind::Noise(_) => &[processes::noise_on_stdout_is_named],
        FaultKind::Stderr(_) => &[processes::flood_of_stderr_is_no_fault],
        FaultKind::IgnoreEof => &[processes::process_that_ignores_its_input_is_named],
        FaultKind::IgnoreTerm => &[processes::process_that_ignores_sigterm_is_named],
        FaultKind::Grandchild => &[processes::process_left_behind_is_named],
    }
}

/// Returns the tests of a fault of the authorization server. A fault of its login page is left to `bowline login`,
/// which is one of the tests.
fn tests_of_auth_fault(kind: &AuthFaultKind) -> &'static [Test] {
    match kind {
        AuthFaultKind::Response(_) => &[
            authorization::web_page_as_metadata_is_named,
            authorization::redirected_metadata_is_named,
            authorization::busy_authorization_server_is_named,
            authorization::web_page_at_the_token_endpoint_is_named,
        ],
        AuthFaultKind::Error { .. } => &[
            authorization::refresh_that_is_refused_is_named,
            authorization::forgotten_client_is_named,
            authorization::error_of_the_token_endpoint_is_named,
        ],
        AuthFaultKind::NonceChallenge => &[
            authorization::nonce_challenge_is_no_fault,
            authorization::nonce_challenges_without_end_are_blamed_on_the_server,
            authorization::nonce_challenges_of_the_token_endpoint_without_end_are_named,
        ],
        AuthFaultKind::Reset => &[
            authorization::reset_metadata_is_named,
            authorization::reset_resource_metadata_is_named,
            authorization::failing_refresh_is_named,
        ],
        AuthFaultKind::Close => &[authorization::closed_metadata_is_named],
        AuthFaultKind::Silent => &[authorization::silent_metadata_is_named],
        AuthFaultKind::Delay(_) => &[authorization::slow_metadata_is_no_fault],
        AuthFaultKind::SetMember(..) => &[
            authorization::metadata_of_another_issuer_is_named,
            authorization::metadata_that_broke_since_the_login_is_a_warning,
            authorization::odd_lifetime_is_no_fault,
            authorization::faults_of_the_authorization_page_are_left_to_the_login,
        ],
        AuthFaultKind::WithoutMember(_) => &[
            authorization::metadata_without_an_issuer_is_named,
            authorization::refresh_that_names_no_scope_is_no_fault,
            authorization::faults_of_the_authorization_page_are_left_to_the_login,
        ],
        AuthFaultKind::ToggleSlash(_) => &[
            authorization::issuer_with_another_slash_is_named,
            authorization::faults_of_the_authorization_page_are_left_to_the_login,
        ],
        AuthFaultKind::Lifetime(_) => &[authorization::token_that_ends_at_once_is_no_fault],
        AuthFaultKind::KeepRefreshToken { mentioned: true } => {
            &[authorization::refresh_token_that_stays_is_no_fault]
        }
        AuthFaultKind::KeepRefreshToken { mentioned: false } => {
            &[authorization::refresh_without_rotation_is_no_fault]
        }
    }
}

/// Returns the tests of what the fault proxy does, for each rule that is set.
fn tests_of_rules(rules: ProxyRules) -> Vec<Test> {
    let ProxyRules { request, reply, ending } = rules;
    let mut tests: Vec<Test> = Vec::new();
    for (flow, cut) in
        [(request, fault_proxy::cut_request_is_named as Test), (reply, fault_proxy::cut_reply_is_named)]
    {
        let FlowRules { delay, cut_after, stall } = flow;
        if !delay.is_zero() {
            tests.push(fault_proxy::short_delay_is_no_fault);
        }
        if cut_after.is_some() {
            tests.push(cut);
        }
        if stall {
            tests.extend([fault_proxy::stall_is_named as Test, fault_proxy::stalled_reply_is_named]);
        }
    }
    match ending {
        ConnectionEnd::Close => {}
        ConnectionEnd::Reset => tests.push(fault_proxy::reset_connection_is_named),
    }
    tests
}

/// How an option is accounted for.
enum Coverage {
    /// By tests of what `bowline doctor` says.
    Tests(&'static [Test]),
    /// By the reason why only `bowline login` meets it.
    LeftToLogin(&'static str),
}

/// The options of a scripted authorization server.
const AUTH_SERVER_OPTIONS: &[(&str, Coverage)] = &[
    ("path", Coverage::Tests(&[auth_options::issuer_with_a_path_is_no_fault])),
    ("issuer", Coverage::Tests(&[auth_options::claimed_issuer_is_named])),
    (
        "metadata",
        Coverage::Tests(&[
            auth_options::token_endpoint_without_tls_is_named,
            dpop::unsupported_algorithm_is_named_before_a_login,
        ]),
    ),
    (
        "without_metadata",
        Coverage::Tests(&[
            authorization::missing_pkce_is_named,
            auth_options::missing_token_endpoint_is_named,
            auth_options::missing_login_page_is_named,
            dpop::missing_announcement_is_named_before_a_login,
        ]),
    ),
    ("no_iss", Coverage::Tests(&[auth_options::missing_iss_is_no_fault])),
    (
        "interactive",
        Coverage::LeftToLogin("the page that asks for consent is shown in the browser of a login"),
    ),
    ("account", Coverage::Tests(&[auth_options::other_account_is_no_fault])),
    ("client", Coverage::Tests(&[auth_options::configured_client_is_no_fault])),
    ("no_registration", Coverage::Tests(&[authorization::missing_registration_is_named])),
    (
        "exact_redirects",
        Coverage::LeftToLogin(
            "the address that a browser returns to is first sent with the request of a login",
        ),
    ),
    ("registers_as", Coverage::LeftToLogin("a client is registered by a login, and doctor registers none")),
    ("scopes", Coverage::Tests(&[authorization::missing_scope_is_named])),
    (
        "strict_scopes",
        Coverage::Tests(&[
            // That a scope is refused is seen when a login asks for it: `scopes_supported` need not be complete.
            auth_options::scope_that_the_metadata_names_is_no_fault,
        ]),
    ),
    ("lifetime", Coverage::Tests(&[auth_options::short_lifetime_is_no_fault])),
    ("jwt_access_tokens", Coverage::Tests(&[auth_options::jwt_as_a_token_is_no_fault])),
    ("refresh_tokens", Coverage::Tests(&[auth_options::end_of_a_login_without_a_refresh_token_is_named])),
    ("no_rotation", Coverage::Tests(&[auth_options::refresh_tokens_that_stay_are_no_fault])),
    ("dpop", Coverage::Tests(&[dpop::announced_dpop_is_no_fault])),
    (
        "dpop_only",
        Coverage::Tests(&[
            // Without a server that asks for bound tokens, only the refusal of a login says that they are required.
            dpop::nonces_of_both_sides_are_no_fault,
        ]),
    ),
    ("dpop_nonce", Coverage::Tests(&[dpop::nonces_of_both_sides_are_no_fault])),
    ("device", Coverage::Tests(&[auth_options::missing_device_authorization_is_named])),
    ("trusts", Coverage::Tests(&[auth_options::assertion_of_an_untrusted_issuer_is_named])),
    ("client_there", Coverage::Tests(&[auth_options::assertion_for_another_client_is_named])),
    // Each kind of fault has its own tests.
    ("fault", Coverage::Tests(&[every_fault_has_a_test])),
];

/// The options of a server that an authorization server protects.
const PROTECTION_OPTIONS: &[(&str, Coverage)] = &[
    ("resource", Coverage::Tests(&[auth_options::resource_of_another_server_is_named])),
    ("authorization_servers", Coverage::Tests(&[authorization::unreachable_authorization_server_is_named])),
    ("metadata", Coverage::Tests(&[authorization::metadata_of_another_server_is_named])),
    (
        "without_metadata",
        Coverage::Tests(&[authorization::metadata_without_an_authorization_server_is_named]),
    ),
    ("challenge_scope", Coverage::Tests(&[authorization::scope_that_the_challenge_names_is_no_fault])),
    ("scopes", Coverage::Tests(&[auth_options::scope_that_the_metadata_names_is_no_fault])),
    ("requires_scope", Coverage::Tests(&[authorization::scope_that_the_login_did_not_ask_for_is_named])),
    ("tool_requires_scope", Coverage::Tests(&[auth_options::scope_of_a_method_is_named])),
    ("open_method", Coverage::Tests(&[auth_options::server_that_asks_for_a_login_only_later_is_named])),
    ("always_unauthorized", Coverage::Tests(&[authorization::server_that_refuses_its_own_tokens_is_named])),
    ("always_forbidden", Coverage::Tests(&[authorization::missing_scope_is_named])),
    ("always_forbidden_without_challenge", Coverage::Tests(&[authorization::denied_access_is_named])),
    ("any_audience", Coverage::Tests(&[auth_options::token_for_any_audience_is_no_fault])),
    ("dpop", Coverage::Tests(&[dpop::dpop_that_only_the_server_knows_of_is_named])),
    ("dpop_nonce", Coverage::Tests(&[dpop::nonces_of_both_sides_are_no_fault])),
];

/// Returns the names of the methods in a file of the test kit that set an option.
fn option_names(file: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/src/auth_server").join(file);
    let text = std::fs::read_to_string(path).expect("the source of the test kit");
    let methods = text.lines().filter_map(|line| line.trim_start().strip_prefix("pub fn ")?.split_once('('));
    let options = methods.filter(|(_, args)| args.starts_with("self") || args.starts_with("mut self"));
    options.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_option_of_an_authorization_server_is_accounted_for() {
    for (file, options) in [("script.rs", AUTH_SERVER_OPTIONS), ("protection.rs", PROTECTION_OPTIONS)] {
        let listed: Vec<&str> = options.iter().map(|(name, _)| *name).collect();
        assert_eq!(option_names(file), listed, "{file}");
        for (name, coverage) in options {
            let is_covered = match coverage {
                Coverage::Tests(tests) => !tests.is_empty(),
                Coverage::LeftToLogin(reason) => !reason.is_empty(),
            };
            assert!(is_covered, "{name}");
        }
    }
}

#[test]
fn every_fault_has_a_test() {
    let text = String::new;
    for kind in [
        FaultKind::Answer(CannedResponse::new(500)),
        FaultKind::CutAfter(1),
        FaultKind::EndAfter(1),
        FaultKind::Reset,
        FaultKind::Close,
        FaultKind::Silent,
        FaultKind::DelayMs(1),
        FaultKind::Raw { bytes: Vec::new(), content_type: text() },
        FaultKind::DropSessions,
        FaultKind::Reply(Value::Null),
        FaultKind::Error(Value::Null),
        FaultKind::Exit(1),
        FaultKind::Noise(text()),
        FaultKind::Stderr(1),
        FaultKind::IgnoreEof,
        FaultKind::IgnoreTerm,
        FaultKind::Grandchild,
    ] {
        assert!(!tests_of_fault(&kind).is_empty(), "{kind:?}");
    }
    for kind in [
        AuthFaultKind::Response(CannedResponse::new(500)),
        AuthFaultKind::Error { status: 400, code: text(), description: None },
        AuthFaultKind::NonceChallenge,
        AuthFaultKind::Reset,
        AuthFaultKind::Close,
        AuthFaultKind::Silent,
        AuthFaultKind::Delay(Duration::ZERO),
        AuthFaultKind::SetMember(text(), Value::Null),
        AuthFaultKind::WithoutMember(text()),
        AuthFaultKind::ToggleSlash(text()),
        AuthFaultKind::Lifetime(Duration::ZERO),
        AuthFaultKind::KeepRefreshToken { mentioned: true },
        AuthFaultKind::KeepRefreshToken { mentioned: false },
    ] {
        assert!(!tests_of_auth_fault(&kind).is_empty(), "{kind:?}");
    }
    let rules = ProxyRules::new().delay(Duration::from_millis(1)).stall().cut_request_after(1);
    assert_eq!(tests_of_rules(rules.cut_reply_after(1).with_reset()).len(), 9);
    assert_eq!(tests_of_rules(ProxyRules::new()).len(), 0);
}
