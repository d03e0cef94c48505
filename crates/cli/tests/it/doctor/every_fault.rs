//! Every fault of the test kit, with the tests of how `bowline doctor` names it: a new kind of fault, rule or
//! ending without an entry here does not compile. Faults of steps that only a login takes are listed in
//! docs/doctor.md.

use std::time::Duration;

use bowline_testkit::{AuthFaultKind, CannedResponse, ConnectionEnd, FaultKind, FlowRules, ProxyRules};
use serde_json::Value;

use super::{authorization, fault_proxy, faults, processes};

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
