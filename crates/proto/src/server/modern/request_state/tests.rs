//! Tests of request states: what is refused, and why.

use proptest::prelude::*;
use ring::hmac;

use super::*;

struct Hmac(hmac::Key);

impl Hmac {
    fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }
}

impl Mac for Hmac {
    fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        context.sign().as_ref().try_into().unwrap()
    }
}

const NOW: u64 = 1_790_000_000;

fn state() -> SealedState {
    SealedState { expires_at: NOW + 60, nonce: [7; NONCE_LEN], payload: b"call-1".to_vec() }
}

fn params(text: &str) -> Json {
    Json::try_from(text).unwrap()
}

fn binding(params: &Json) -> StateBinding<'_> {
    StateBinding { principal: "alice", node: "n1", method: "tools/call", params: Some(params) }
}

/// Opens a state that was sealed for a call of `t` by alice at node `n1`.
fn open_with(change: impl FnOnce(&mut StateBinding<'_>, &mut u64)) -> Result<SealedState, StateRefusal> {
    let mac = Hmac::new(b"key");
    let first = params(r#"{"name":"t","arguments":{"a":1},"_meta":{"n":1}}"#);
    let text = state().seal(&binding(&first), &mac).unwrap();
    let retry =
        params(r#"{"arguments":{"a":1},"name":"t","inputResponses":{},"requestState":"x","_meta":{"n":2}}"#);
    let (mut presented, mut now) = (binding(&retry), NOW);
    change(&mut presented, &mut now);
    SealedState::open(&text, &presented, now, &mac)
}

#[test]
fn retry_of_the_same_request_is_accepted() {
    assert_eq!(open_with(|_, _| {}), Ok(state()));
    assert_eq!(open_with(|_, now| *now = NOW + 59), Ok(state()));
}

// GW-07: other user, other tool, other params, other node, expired.
#[test]
fn every_other_request_is_refused_for_its_own_reason() {
    let other_tool = params(r#"{"name":"u","arguments":{"a":1}}"#);
    let other_arguments = params(r#"{"name":"t","arguments":{"a":2}}"#);
    let no_arguments = params(r#"{"name":"t"}"#);
    for (refused, expected) in [
        (open_with(|_, now| *now = NOW + 60), StateRefusal::Expired),
        (open_with(|_, now| *now = u64::MAX), StateRefusal::Expired),
        (open_with(|binding, _| binding.principal = "bob"), StateRefusal::OtherPrincipal),
        (open_with(|binding, _| binding.principal = ""), StateRefusal::OtherPrincipal),
        (open_with(|binding, _| binding.node = "n2"), StateRefusal::OtherNode("n1".into())),
        (open_with(|binding, _| binding.method = "prompts/get"), StateRefusal::OtherMethod),
        (
            SealedState::open(&sealed(), &binding(&other_tool), NOW, &Hmac::new(b"key")),
            StateRefusal::OtherTarget,
        ),
        (
            SealedState::open(&sealed(), &binding(&other_arguments), NOW, &Hmac::new(b"key")),
            StateRefusal::OtherParams,
        ),
        (
            SealedState::open(&sealed(), &binding(&no_arguments), NOW, &Hmac::new(b"key")),
            StateRefusal::OtherParams,
        ),
        (open_with(|binding, _| binding.params = None), StateRefusal::OtherTarget),
    ] {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal, expected);
        // One public error for all of them.
        assert_eq!(refusal.refusal(), StateRefusal::Forged.refusal());
        assert_eq!(refusal.refusal().error.code, -32602);
    }
}

fn sealed() -> String {
    let first = params(r#"{"name":"t","arguments":{"a":1}}"#);
    state().seal(&binding(&first), &Hmac::new(b"key")).unwrap()
}

#[test]
fn strings_that_are_no_state_are_refused() {
    let presented = params(r#"{"name":"t","arguments":{"a":1}}"#);
    let mac = Hmac::new(b"key");
    let long = "A".repeat(MAX_TEXT_LEN + 1);
    let padded = format!("{}=", sealed());
    for text in ["", "opaque", "{}", "é", &long, &padded] {
        let refused = SealedState::open(text, &binding(&presented), NOW, &mac);
        assert_eq!(refused, Err(StateRefusal::Malformed), "{text}");
    }
    // A tag under our key over bytes that are no state.
    for body in [&b""[..], b"\x02", b"\x01short", &[VERSION; 89], &[VERSION; 90]] {
        let mut bytes = body.to_vec();
        bytes.extend_from_slice(&mac.tag(&[SEAL_DOMAIN, body]));
        let refused = SealedState::open(&URL_SAFE_NO_PAD.encode(bytes), &binding(&presented), NOW, &mac);
        assert_eq!(refused, Err(StateRefusal::Malformed), "{body:?}");
    }
    let other_key = SealedState::open(&sealed(), &binding(&presented), NOW, &Hmac::new(b"other"));
    assert_eq!(other_key, Err(StateRefusal::Forged));
}

#[test]
fn lengths_are_bounded() {
    let params = params("{}");
    let mac = Hmac::new(b"key");
    let node = "n".repeat(MAX_NODE_LEN);
    let longest = SealedState { payload: vec![0; MAX_PAYLOAD_LEN], ..state() };
    let widest = StateBinding { node: &node, ..binding(&params) };
    let text = longest.seal(&widest, &mac).unwrap();
    assert!(text.len() <= MAX_TEXT_LEN);
    assert_eq!(SealedState::open(&text, &widest, NOW, &mac), Ok(longest.clone()));
    let node = "n".repeat(MAX_NODE_LEN + 1);
    assert_eq!(state().seal(&StateBinding { node: &node, ..widest }, &mac), Err(StateTooLong));
    let too_long = SealedState { payload: vec![0; MAX_PAYLOAD_LEN + 1], ..longest };
    assert_eq!(too_long.seal(&widest, &mac), Err(StateTooLong));
}

#[test]
fn debug_output_has_no_payload() {
    assert_eq!(format!("{:?}", state()), "SealedState { expires_at: 1790000060, .. }");
}

proptest! {
    // GW-07: a state opens for its request with what was sealed, and no changed text opens.
    #[test]
    fn only_the_issued_text_opens(
        payload in proptest::collection::vec(any::<u8>(), 0..40),
        nonce: [u8; NONCE_LEN],
        node in "[a-z]{0,12}",
        principal in "\\PC{0,12}",
        lifetime in 1..100_000u64,
        flipped: prop::sample::Index,
        bit in 0..8u32,
    ) {
        let mac = Hmac::new(b"key");
        let params = params(r#"{"uri":"file:///a"}"#);
        let request =
            StateBinding { principal: &principal, node: &node, method: "resources/read", params: Some(&params) };
        let state = SealedState { expires_at: NOW + lifetime, nonce, payload };
        let text = state.seal(&request, &mac).unwrap();
        prop_assert_eq!(SealedState::open(&text, &request, NOW, &mac), Ok(state.clone()));
        prop_assert_eq!(SealedState::open(&text, &request, NOW + lifetime, &mac), Err(StateRefusal::Expired));
        let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        bytes[flipped.index(text.len() * 3 / 4)] ^= 1 << bit;
        let changed = URL_SAFE_NO_PAD.encode(bytes);
        prop_assert_eq!(SealedState::open(&changed, &request, NOW, &mac), Err(StateRefusal::Forged));
        let cut = &text[..flipped.index(text.len())];
        prop_assert!(SealedState::open(cut, &request, NOW, &mac).is_err());
    }
}

#[test]
fn a_state_says_of_which_node_it_is() {
    let call = params(r#"{"name":"t"}"#);
    let text = state().seal(&binding(&call), &Hmac::new(b"key of a process that is gone")).unwrap();
    assert_eq!(claimed_node(&text).as_deref(), Some("n1"));
    for odd in ["", "A", "AA", "mine", &text[..text.len() / 2], &"A".repeat(MAX_TEXT_LEN + 1)] {
        assert_eq!(claimed_node(odd), None, "{odd}");
    }
}
