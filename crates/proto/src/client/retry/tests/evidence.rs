//! Tests of the rule of evidence: what proves that a request was not executed.

use super::busy::busy;
use super::*;
use crate::fault::Misbehavior;

const SESSION_LOST: (Cause, Execution) = (Cause::SessionLost, Execution::NotExecuted);
const UNKNOWN_LOSS: (Cause, Execution) = (Cause::SessionLost, Execution::Unknown);

fn lost(play: &mut Scenario) -> (Cause, Execution) {
    match play.retry.poll_report() {
        Some(Report::SessionLost(fault)) => (fault.cause, fault.execution),
        other => panic!("no session was lost: {other:?}"),
    }
}

/// HL-03: a 404 or 410 is proof by itself, unless an error names our request.
#[test]
fn a_404_is_proof_unless_it_names_our_request() {
    for reply in [text_reply(404, "Session not found"), text_reply(410, ""), text_reply(404, "")] {
        let mut play = Scenario::new();
        assert_eq!(play.fail(reply), Step::Reconnect);
        assert_eq!(lost(&mut play), SESSION_LOST);
        assert_eq!(play.reconnect(), Step::Send);
    }
    let mut play = Scenario::new();
    assert_eq!(play.fail(error_reply(404, -32603, "Session not found")), Step::Probe(PING));
    assert_eq!(play.retry.poll_report(), None);
}

/// An error that mentions a session is the tool's own, if the session still answers.
#[test]
fn words_of_a_living_session_are_handed_on() {
    for (status, code, message) in [
        (500, -32603, "Session expired"),
        (503, -32000, "Session not found"),
        (400, -32000, "No valid session ID provided"),
        (404, -32603, "Session not found"),
        (200, -32001, "Session not found"),
    ] {
        for harmless in [Some(true), Some(false), None] {
            let mut play = Scenario::with_harmless(harmless);
            assert_eq!(
                play.fail(error_reply(status, code, message)),
                Step::Probe(PING),
                "{status} {message}"
            );
            assert_eq!(play.answer_probe(PING, result()), Step::Probe(LIST), "{status} {message}");
            assert_server_error(&play.answer_probe(LIST, result()), message);
            assert_eq!(play.retry.poll_report(), None, "nothing was lost");
        }
    }
    // Of a plain text only the status is reported, with an unknown outcome.
    for status in [400, 500, 503] {
        let mut play = Scenario::new();
        assert_eq!(play.fail(text_reply(status, "Session not found")), Step::Probe(PING));
        assert_eq!(play.answer_probe(PING, result()), Step::Probe(LIST));
        let (cause, execution) = final_fault(&play.answer_probe(LIST, result()));
        assert_eq!(execution, Execution::Unknown, "{cause:?}");
    }
}

/// The refusal of a live session is final, but a 503 is a proxy's.
#[test]
fn harmless_request_of_a_living_session_is_repeated_after_an_outage_alone() {
    let refuse = |status| {
        let mut play = Scenario::with_harmless(Some(true));
        assert_eq!(play.fail(text_reply(status, "Session not found")), Step::Probe(PING));
        assert_eq!(play.answer_probe(PING, result()), Step::Probe(LIST));
        let step = play.answer_probe(LIST, result());
        (play, step)
    };
    for code in [400, 500] {
        let (_, step) = refuse(code);
        assert_eq!(final_fault(&step), (Cause::Status { code, retry_after: None }, Execution::Unknown));
    }
    let (play, step) = refuse(503);
    assert_eq!(step, Step::Wait(play.now + Duration::from_millis(50)));
}

/// A probe that is refused in the same way is proof, whatever the status and the id.
#[test]
fn a_gate_that_refuses_the_probe_is_proof() {
    let gates: Vec<fn(u64) -> Reply> = vec![
        |_| error_reply(400, -32000, "Bad Request: No valid session ID provided"),
        |_| error_reply(404, -32603, "Session not found"),
        |_| error_reply(400, -32602, "Invalid session"),
        |_| text_reply(403, "Forbidden: invalid session"),
        |_| error_reply(503, -32603, "Session not found"),
        |_| error_reply(200, -32001, "Session not found"),
        |_| text_reply(400, ""),
        |at| text_reply(400, &format!("Session 4f00aa-{at}-bc not found at 10:00:0{at}, id: {at}")),
        |_| text_reply(500, "session is null"),
        // A success whose body is not a message.
        |_| Reply::Fault(Fault::protocol(Misbehavior::ContentType).with_body(b"Session not found")),
    ];
    for gate in gates {
        let mut play = Scenario::new();
        assert_eq!(play.fail(gate(1)), Step::Probe(PING), "{:?}", gate(1));
        assert_eq!(play.answer_probe(PING, gate(2)), Step::Reconnect, "{:?}", gate(1));
        assert_eq!(lost(&mut play), SESSION_LOST);
        assert_eq!(play.reconnect(), Step::Send);
        assert_eq!(play.retry.resends(), 1);
    }
}

/// Some servers check the session of every method but `ping`.
#[test]
fn a_gate_that_lets_ping_pass_is_found_by_a_list() {
    let gate = || error_reply(400, -32000, "No valid session ID provided");
    let mut play = Scenario::new();
    play.fail(gate());
    assert_eq!(play.answer_probe(PING, result()), Step::Probe(LIST));
    assert_eq!(play.answer_probe(LIST, gate()), Step::Reconnect);
    assert_eq!(lost(&mut play), SESSION_LOST);
    // If the refusal mentions the handshake, `ping` is not even sent.
    let gate = || error_reply(200, -32002, "Server not initialized");
    let mut play = Scenario::new();
    assert_eq!(play.fail(gate()), Step::Probe(LIST));
    assert_eq!(play.answer_probe(LIST, gate()), Step::Reconnect);
    // If there is no list, the result of `ping` decides.
    let mut play = Scenario::new();
    play.link.list_method = None;
    play.fail(gate());
    assert_server_error(&play.answer_probe(PING, result()), "Server not initialized");
}

/// The session is lost, but nothing is proved about the request.
#[test]
fn a_probe_that_is_refused_differently_proves_nothing() {
    let refusals = [
        text_reply(500, "session expired"),
        error_reply(500, -32000, "Session expired"),
        text_reply(400, "broken"),
    ];
    for refusal in refusals {
        let mut play = Scenario::new();
        assert_eq!(play.fail(refusal.clone()), Step::Probe(PING));
        assert_eq!(
            final_fault(&play.answer_probe(PING, text_reply(404, "Session not found"))),
            UNKNOWN_LOSS,
            "{refusal:?}"
        );
        assert_eq!(lost(&mut play), UNKNOWN_LOSS);

        let mut play = Scenario::with_harmless(Some(true));
        play.fail(refusal.clone());
        assert_eq!(play.answer_probe(PING, text_reply(404, "Session not found")), Step::Reconnect);
        assert_eq!(play.reconnect(), Step::Send);

        let mut play = Scenario::with_harmless(None);
        play.fail(refusal.clone());
        assert_eq!(play.answer_probe(PING, text_reply(404, "Session not found")), Step::Reconnect);
        assert_eq!(play.reconnect(), Step::CheckHarmless);
        assert_eq!(final_fault(&play.retry.handle_harmless(play.now, false)), UNKNOWN_LOSS);

        let mut play = Scenario::with_harmless(None);
        play.fail(refusal);
        play.answer_probe(PING, text_reply(404, "Session not found"));
        play.reconnect();
        assert_eq!(play.retry.handle_harmless(play.now, true), Step::Send);
    }
}

/// LC-14: a modern server has no `ping`.
#[test]
fn lc_14_probe_has_the_method_of_its_era() {
    let modern = LinkFacts { modern: true, ..LINK };
    assert_eq!([LINK.probe_method(PING), LINK.probe_method(LIST)], [method::PING, method::TOOLS_LIST]);
    assert_eq!(
        [modern.probe_method(PING), modern.probe_method(LIST)],
        [method::DISCOVER, method::TOOLS_LIST]
    );
}

/// A server may refuse `ping` alone, so a list confirms the loss before a session is discarded.
#[test]
fn an_error_to_ping_is_confirmed_by_a_list() {
    let mut play = Scenario::new();
    play.fail(text_reply(500, "oops"));
    assert_eq!(play.answer_probe(PING, text_reply(400, "no ping here")), Step::Probe(LIST));
    let (cause, execution) = final_fault(&play.answer_probe(LIST, result()));
    assert_eq!((cause, execution), (Cause::Status { code: 500, retry_after: None }, Execution::Unknown));
    assert_eq!(play.retry.poll_report(), None);
    // An unrelated error is an answer.
    let mut play = Scenario::new();
    play.fail(text_reply(500, "oops"));
    final_fault(&play.answer_probe(PING, error_reply(200, -32601, "Method not found")));
    assert_eq!(play.retry.poll_report(), None);
}

/// A proxy answers everything alike, and so does a server that fails at everything: neither is
/// proof.
#[test]
fn proxy_and_generic_errors_prove_nothing() {
    for reply in [
        text_reply(500, ""),
        text_reply(500, "Internal Server Error"),
        text_reply(502, "Bad Gateway: session closed"),
        text_reply(504, "session timed out"),
        text_reply(520, "session not found"),
        text_reply(503, ""),
    ] {
        let mut play = Scenario::new();
        assert_eq!(play.fail(reply.clone()), Step::Probe(PING), "{reply:?}");
        let mut step = play.answer_probe(PING, reply.clone());
        if step == Step::Probe(LIST) {
            step = play.answer_probe(LIST, reply.clone());
        }
        assert_eq!(final_fault(&step).1, Execution::Unknown, "{reply:?}");
    }
}

/// Two refusals that only begin alike, or differ in their data or in an error number, are not
/// equal.
#[test]
fn refusals_that_differ_prove_nothing() {
    let page = |end: &str| text_reply(400, &format!("{}{end}", "<style>".repeat(1_000)));
    let data = |reason: &str| {
        let data = Json::parse(format!("\"{reason}\"")).unwrap();
        let error = RpcError { code: -32000, message: "Server error".to_owned(), data: Some(data) };
        Reply::Error { status: Some(400), error, stray: false }
    };
    let pairs = [
        (page("the tool failed"), page("no ping here")),
        (data("the vendor's session was not found"), data("ping is not implemented")),
        (text_reply(400, r#"{"error":"E1001"}"#), text_reply(400, r#"{"error":"E2002"}"#)),
    ];
    for (refusal, answer) in pairs {
        let mut play = Scenario::new();
        assert_eq!(play.fail(refusal.clone()), Step::Probe(PING), "{refusal:?}");
        let mut step = play.answer_probe(PING, answer.clone());
        if step == Step::Probe(LIST) {
            step = play.answer_probe(LIST, answer);
        }
        assert_eq!(final_fault(&step).1, Execution::Unknown, "{refusal:?}");
    }
}

/// A 404 is believed once; the next time a probe has to confirm it.
#[test]
fn a_404_is_believed_without_a_probe_once() {
    let mut play = Scenario::new();
    assert_eq!(play.fail(text_reply(404, "Not Found")), Step::Reconnect);
    assert_eq!(play.reconnect(), Step::Send);
    assert_eq!(play.fail(text_reply(404, "Not Found")), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, result()), Step::Probe(LIST));
    assert_eq!(final_fault(&play.answer_probe(LIST, result())).1, Execution::Unknown);
    // If the probe is refused as well, the session is lost.
    let mut play = Scenario::new();
    play.fail(text_reply(404, "Not Found"));
    play.reconnect();
    assert_eq!(play.fail(text_reply(404, "Not Found")), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, text_reply(404, "Not Found")), Step::Reconnect);
    assert_eq!(lost(&mut play), SESSION_LOST);
}

#[test]
fn a_probe_that_is_not_answered_proves_nothing() {
    let silence = Reply::Fault(Fault::new(Cause::Timeout(crate::fault::Limit::Idle)));
    for answer in [cut_reply(), refused_reply(), silence, text_reply(502, "Bad Gateway")] {
        let mut play = Scenario::new();
        // A probe that was cut is sent once more.
        let is_cut = answer == cut_reply();
        play.fail(error_reply(400, -32000, "No valid session ID provided"));
        if is_cut {
            assert_eq!(play.answer_probe(PING, answer.clone()), Step::Probe(PING));
        }
        assert_server_error(&play.answer_probe(PING, answer.clone()), "No valid session ID provided");
        assert!(matches!(play.retry.poll_report(), Some(Report::LinkLost(_))), "{answer:?}");
        let mut play = Scenario::with_harmless(Some(true));
        play.fail(error_reply(400, -32000, "No valid session ID provided"));
        if is_cut {
            assert_eq!(play.answer_probe(PING, answer.clone()), Step::Probe(PING));
        }
        assert_eq!(play.answer_probe(PING, answer), Step::Reconnect);
        assert_eq!(play.reconnect(), Step::Send);
    }
}

/// The connection that a probe was sent over may be cut by what lost the session. Over HTTP another one
/// proves the loss, so the call is saved.
#[test]
fn probe_that_was_cut_is_sent_once_more_over_http() {
    let gate = || error_reply(400, -32000, "No valid session ID provided");
    let mut play = Scenario::new();
    assert_eq!(play.fail(gate()), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, cut_reply()), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, gate()), Step::Reconnect);
    assert_eq!(lost(&mut play), SESSION_LOST);
    assert_eq!(play.reconnect(), Step::Send);
    // Each refusal has its own second probe.
    assert_eq!(play.fail(gate()), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, cut_reply()), Step::Probe(PING));
    // A list that was cut is asked for again as a list.
    let mut play = Scenario::new();
    assert_eq!(play.fail(gate()), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, result()), Step::Probe(LIST));
    assert_eq!(play.answer_probe(LIST, cut_reply()), Step::Probe(LIST));
    assert_eq!(play.answer_probe(LIST, gate()), Step::Reconnect);
    // On a pipe there is no other connection.
    let mut play = Scenario::new();
    play.link.http = false;
    assert_eq!(play.fail(gate()), Step::Probe(PING));
    assert_server_error(&play.answer_probe(PING, cut_reply()), "No valid session ID provided");
}

/// What the server sent on another stream may be read after the refusal that it sent later.
#[test]
fn message_that_is_read_after_the_refusal_undoes_its_proof() {
    let forgotten = || text_reply(404, "Session not found");
    let mut play = Scenario::new();
    assert_eq!(play.fail(forgotten()), Step::Reconnect);
    assert_eq!(lost(&mut play), SESSION_LOST);
    play.retry.record_message();
    assert_eq!(final_fault(&play.reconnect()), UNKNOWN_LOSS);
    // During a wait that a rate limit asked for.
    let mut play = Scenario::new();
    assert_eq!(play.fail(busy(2)), Step::Probe(PING));
    let Step::Wait(until) = play.answer_probe(PING, busy(2)) else { panic!("there is no wait") };
    play.retry.record_message();
    assert_eq!(final_fault(&play.retry.handle_timeout(until)).1, Execution::Unknown);
    // A harmless request needs no proof, and each sending is judged by itself.
    for harmless in [Some(true), None] {
        let mut play = Scenario::with_harmless(harmless);
        assert_eq!(play.fail(forgotten()), Step::Reconnect);
        play.retry.record_message();
        let mut step = play.reconnect();
        if harmless.is_none() {
            assert_eq!(step, Step::CheckHarmless);
            step = play.retry.handle_harmless(play.now, true);
        }
        assert_eq!(step, Step::Send);
    }
    let mut play = Scenario::with_harmless(None);
    assert_eq!(play.fail(forgotten()), Step::Reconnect);
    play.retry.record_message();
    assert_eq!(play.reconnect(), Step::CheckHarmless);
    assert_eq!(final_fault(&play.retry.handle_harmless(play.now, false)), UNKNOWN_LOSS);
}

/// A server that sent a message about a request has let it pass its gate, whatever it says later: no
/// refusal proves that the request was not executed.
#[test]
fn refusal_after_a_message_about_the_request_proves_nothing() {
    let gate = || error_reply(200, -32000, "Session not found");
    let heard = |harmless| {
        let mut play = Scenario::with_harmless(harmless);
        play.retry.record_message();
        play
    };
    let mut play = heard(Some(false));
    assert_eq!(play.fail(gate()), Step::Probe(PING));
    assert_eq!(final_fault(&play.answer_probe(PING, gate())), UNKNOWN_LOSS);
    assert_eq!(lost(&mut play), UNKNOWN_LOSS);
    // A 404 as well.
    let mut play = heard(Some(false));
    assert_eq!(final_fault(&play.fail(text_reply(404, "Session not found"))), UNKNOWN_LOSS);
    assert_eq!(lost(&mut play), UNKNOWN_LOSS);
    // And what the transport takes for proof.
    let mut play = heard(Some(false));
    assert_eq!(final_fault(&play.fail(refused_reply())), (Cause::Refused, Execution::Unknown));
    let mut play = heard(Some(false));
    let login = Cause::LoginRequired { code: 401, challenge: Vec::new() };
    let step = play.fail(Reply::Fault(Fault::before_sending(login.clone())));
    assert_eq!(final_fault(&step), (login, Execution::Unknown));
    // And a rate limit.
    let mut play = heard(Some(false));
    assert_eq!(play.fail(busy(2)), Step::Probe(PING));
    assert_eq!(final_fault(&play.answer_probe(PING, busy(2))).1, Execution::Unknown);
    // And headers that a modern server says are stale.
    let mut play = heard(Some(false));
    play.link = LinkFacts { modern: true, session: false, ..LINK };
    assert_server_error(
        &play.fail(error_reply(400, code::HEADER_MISMATCH, "headers disagree")),
        "headers disagree",
    );
    // A harmless request needs a session and no proof.
    for harmless in [Some(true), None] {
        let mut play = heard(harmless);
        assert_eq!(play.fail(gate()), Step::Probe(PING));
        assert_eq!(play.answer_probe(PING, gate()), Step::Reconnect);
        let mut step = play.reconnect();
        if harmless.is_none() {
            assert_eq!(step, Step::CheckHarmless);
            step = play.retry.handle_harmless(play.now, true);
        }
        assert_eq!(step, Step::Send);
        // The message was about the first sending. What that did is not known for ever.
        assert_eq!(play.fail(gate()), Step::Probe(PING));
        assert_eq!(play.answer_probe(PING, gate()), Step::Reconnect);
        play.now = play.retry.deadline();
        assert_eq!(final_fault(&play.retry.handle_timeout(play.now)), UNKNOWN_LOSS);
    }
}

/// A rate limit refuses a probe before its session is looked up, so it is no sign of life. It may limit `ping`
/// alone, so a list is tried next.
#[test]
fn rate_limit_does_not_answer_for_the_session() {
    let gate = || error_reply(400, -32000, "No valid session ID provided");
    for limited in [text_reply(429, "slow down"), error_reply(429, -32000, "slow down")] {
        let mut play = Scenario::with_harmless(Some(true));
        assert_eq!(play.fail(gate()), Step::Probe(PING));
        assert_eq!(play.answer_probe(PING, limited.clone()), Step::Probe(LIST), "{limited:?}");
        let step = play.answer_probe(LIST, limited.clone());
        assert_eq!(step, Step::Wait(play.now + Duration::from_millis(50)), "{limited:?}");
        assert_eq!(play.retry.poll_report(), None);
        let mut play = Scenario::new();
        play.fail(gate());
        play.answer_probe(PING, limited.clone());
        assert_server_error(&play.answer_probe(LIST, limited.clone()), "No valid session ID provided");
        // The list is refused as the call was: that proves the loss.
        let mut play = Scenario::new();
        play.fail(gate());
        play.answer_probe(PING, limited.clone());
        assert_eq!(play.answer_probe(LIST, gate()), Step::Reconnect, "{limited:?}");
    }
}

/// The report of a lost link says why: by its own fault, or by a probe that got no answer.
#[test]
fn unanswered_probe_says_why_the_link_is_lost() {
    let silence = Fault::new(Cause::Timeout(crate::fault::Limit::Idle));
    let refused = Fault::before_sending(Cause::Refused);
    for (answer, reported) in [
        (silence, Fault::new(Cause::Cut).with_note("the server answers nothing, not even a probe")),
        (refused.clone(), refused),
    ] {
        let mut play = Scenario::new();
        play.fail(error_reply(400, -32000, "No valid session ID provided"));
        play.answer_probe(PING, Reply::Fault(answer));
        assert_eq!(play.retry.poll_report(), Some(Report::LinkLost(reported)));
    }
}

/// A probe that fails by itself, or for its credentials, costs no link: a harmless request is sent
/// over the same one.
#[test]
fn probe_that_failed_by_itself_costs_no_link() {
    let too_large = Reply::Fault(Fault::protocol(Misbehavior::TooLarge { limit: 1 }));
    for answer in [too_large, text_reply(401, "")] {
        let mut play = Scenario::new();
        play.fail(error_reply(400, -32000, "No valid session ID provided"));
        assert_server_error(&play.answer_probe(PING, answer.clone()), "No valid session ID provided");
        let mut play = Scenario::with_harmless(Some(true));
        play.fail(error_reply(400, -32000, "No valid session ID provided"));
        let step = play.answer_probe(PING, answer.clone());
        assert_eq!(step, Step::Wait(play.now + Duration::from_millis(50)), "{answer:?}");
        assert_eq!(play.retry.poll_report(), None);
    }
}

/// A lost link is proof only if the transport knows that nothing was sent.
#[test]
fn a_lost_link_is_proof_only_where_nothing_left() {
    let mut play = Scenario::new();
    assert_eq!(play.fail(refused_reply()), Step::Reconnect);
    assert_eq!(play.reconnect(), Step::Send);
    let mut play = Scenario::new();
    assert_eq!(final_fault(&play.fail(cut_reply())), (Cause::Cut, Execution::Unknown));
    assert!(matches!(play.retry.poll_report(), Some(Report::LinkLost(_))));
    // On a pipe the reader reports it.
    let mut play = Scenario::new();
    play.link = LinkFacts { list_method: None, ..LinkFacts::default() };
    final_fault(&play.fail(cut_reply()));
    assert_eq!(play.retry.poll_report(), None);
}

/// Once the request may have been executed, its outcome stays unknown.
#[test]
fn an_unknown_outcome_stays_unknown() {
    let mut play = Scenario::with_harmless(Some(true));
    assert_eq!(play.fail(cut_reply()), Step::Reconnect);
    assert_eq!(play.reconnect(), Step::Send);
    assert_eq!(play.fail(refused_reply()), Step::Reconnect);
    let missing = Fault::before_sending(Cause::Refused);
    let step = play.retry.handle_link(play.now, Err(missing));
    assert_eq!(final_fault(&step), (Cause::Refused, Execution::Unknown));
}

/// The outcome of a missing link does not replace that of the request.
#[test]
fn label_of_a_missing_link_is_that_of_the_request() {
    let mut play = Scenario::new();
    assert_eq!(play.fail(refused_reply()), Step::Reconnect);
    let missing = Fault::new(Cause::Timeout(crate::fault::Limit::Connect));
    let (cause, execution) = final_fault(&play.retry.handle_link(play.now, Err(missing.clone())));
    assert_eq!((cause, execution), (missing.cause, Execution::NotExecuted));
}

/// A refusal that a probe does not confirm proves nothing, whatever outcome it carries.
#[test]
fn unconfirmed_refusal_is_unknown() {
    let fault = Fault::new(Cause::Status { code: 400, retry_after: None }).with_body(b"Session not found");
    let mut play = Scenario::new();
    assert_eq!(play.fail(Reply::Fault(fault.clone().not_executed())), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, result()), Step::Probe(LIST));
    assert_eq!(final_fault(&play.answer_probe(LIST, result())), (fault.cause, Execution::Unknown));
}

#[test]
fn a_pinned_request_is_not_sent_over_another_link() {
    let mut play = Scenario::with_harmless(Some(true));
    play.retry.request.pinned = true;
    assert_eq!(final_fault(&play.fail(cut_reply())), (Cause::Cut, Execution::Unknown));
    let mut play = Scenario::with_harmless(Some(true));
    play.retry.request.pinned = true;
    let step = play.retry.handle_failure(play.now, play.link, SendFailure::NotSent);
    assert_eq!(step, Step::Finish(FinalFailure::NotSent));
}

/// HM-10: annotations are refetched once, for a tool of a modern server over HTTP only.
#[test]
fn hm_10_stale_headers_are_corrected_once() {
    let modern = LinkFacts { modern: true, session: false, ..LINK };
    let stale = || error_reply(400, code::HEADER_MISMATCH, "headers disagree");
    let mut play = Scenario::new();
    play.link = modern;
    assert_eq!(play.fail(stale()), Step::RefetchAnnotations);
    assert_eq!(play.retry.handle_annotations(play.now), Step::Send);
    assert_server_error(&play.fail(stale()), "headers disagree");
    for link in [LinkFacts { modern: false, ..modern }, LinkFacts { http: false, ..modern }] {
        let mut play = Scenario::new();
        play.link = link;
        assert_server_error(&play.fail(stale()), "headers disagree");
    }
    // A tool may pass on what another server has said to it. Headers are refused with 400.
    for status in [200, 422, 500] {
        let mut play = Scenario::new();
        play.link = modern;
        let step = play.fail(error_reply(status, code::HEADER_MISMATCH, "headers disagree"));
        assert_server_error(&step, "headers disagree");
    }
}

/// A tool that ends its own session is refused alike after each execution, on sessions that answer
/// everything else.
#[test]
fn a_request_is_given_up_when_its_session_is_refused_six_times() {
    let gate = || text_reply(404, "Session not found");
    for harmless in [Some(false), None, Some(true)] {
        let mut play = Scenario::with_harmless(harmless);
        let mut sendings = 1;
        let end = loop {
            let mut step = play.fail(gate());
            if step == Step::Probe(PING) {
                step = play.answer_probe(PING, gate());
            }
            if step == Step::Reconnect {
                step = play.reconnect();
            }
            if step == Step::CheckHarmless {
                step = play.retry.handle_harmless(play.now, false);
            }
            if let Step::Wait(until) = step {
                play.now = until;
                step = play.retry.handle_timeout(play.now);
            }
            if step != Step::Send || sendings == 7 {
                break step;
            }
            sendings += 1;
        };
        if harmless == Some(true) {
            assert_eq!((sendings, end), (7, Step::Send));
        } else {
            assert_eq!((sendings, final_fault(&end)), (6, UNKNOWN_LOSS), "{harmless:?}");
        }
    }
}
