//! [`SealedState`]: the content of a `requestState`, protected against hosts.
//!
//! A host sends the string back with its retry, and may send anything else instead. A message
//! authentication code binds it to the principal, the node, the method and the params for which it
//! was issued, and to a time. It is not encrypted: a host can read the payload, the time and the
//! name of the node. It can also send it twice; whoever must not serve it twice has to remember the
//! nonce, or to remove what the payload names.

mod digest;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use self::digest::{canonical_params, digest_of};
use super::Refusal;
use crate::wire::{Json, mirror};

/// A message authentication code with its key, such as HMAC-SHA-256.
pub trait Mac {
    /// The tag of the concatenation of these parts.
    fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN];
}

/// Length of a tag in bytes.
pub const TAG_LEN: usize = 32;
/// Length of a nonce in bytes.
pub const NONCE_LEN: usize = 16;
/// Maximum length of a payload in bytes.
pub const MAX_PAYLOAD_LEN: usize = 512;
/// Maximum length of the name of a node in bytes.
pub const MAX_NODE_LEN: usize = 128;

/// The content of a `requestState`.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedState {
    /// When it expires, in seconds since the epoch. It is valid before that time only.
    pub expires_at: u64,
    /// Random bytes that make every state different.
    pub nonce: [u8; NONCE_LEN],
    /// What the issuer needs for the retry, such as the key of a call that waits for input.
    pub payload: Vec<u8>,
}

/// The request that a state is bound to.
#[derive(Clone, Copy, Debug)]
pub struct StateBinding<'a> {
    /// Who sends the request. It must identify one user, also among those of other issuers.
    pub principal: &'a str,
    /// The node that holds what the payload names. The host can read it.
    pub node: &'a str,
    /// The method of the request.
    pub method: &'a str,
    /// The params of the request. `_meta`, `inputResponses` and `requestState` are ignored, and so
    /// are the order of members and the spelling of strings.
    pub params: Option<&'a Json>,
}

/// Why a `requestState` is refused. The host is told the same in each case.
// GW-07
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateRefusal {
    /// It does not have the form of a state.
    Malformed,
    /// Its tag is wrong: it was changed, or sealed with another key.
    Forged,
    /// Its time is over.
    Expired,
    /// It was issued to another principal.
    OtherPrincipal,
    /// It was issued by another node, which holds what the payload names.
    OtherNode(Box<str>),
    /// It was issued for another method.
    OtherMethod,
    /// It was issued for another tool, prompt or resource.
    OtherTarget,
    /// It was issued for other params.
    OtherParams,
}

/// A state that cannot be sealed, because its payload or the name of its node is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTooLong;

impl SealedState {
    /// Writes the `requestState` for a request.
    // GW-07
    pub fn seal(&self, binding: &StateBinding<'_>, mac: &impl Mac) -> Result<String, StateTooLong> {
        if self.payload.len() > MAX_PAYLOAD_LEN || binding.node.len() > MAX_NODE_LEN {
            return Err(StateTooLong);
        }
        let digests = BindingDigests::new(binding, mac);
        let node_len = u8::try_from(binding.node.len()).map_err(|_| StateTooLong)?;
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.expires_at.to_be_bytes());
        bytes.extend_from_slice(&self.nonce);
        for digest in digests.in_order() {
            bytes.extend_from_slice(digest);
        }
        bytes.push(node_len);
        bytes.extend_from_slice(binding.node.as_bytes());
        bytes.extend_from_slice(&self.payload);
        let tag = mac.tag(&[SEAL_DOMAIN, &bytes]);
        bytes.extend_from_slice(&tag);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Opens the `requestState` of a retry. `now` is in seconds since the epoch.
    // GW-07
    pub fn open(
        text: &str,
        binding: &StateBinding<'_>,
        now: u64,
        mac: &impl Mac,
    ) -> Result<Self, StateRefusal> {
        if text.len() > MAX_TEXT_LEN {
            return Err(StateRefusal::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| StateRefusal::Malformed)?;
        let (body, tag) = bytes.split_last_chunk::<TAG_LEN>().ok_or(StateRefusal::Malformed)?;
        if !is_equal(&mac.tag(&[SEAL_DOMAIN, body]), tag) {
            return Err(StateRefusal::Forged);
        }
        let mut fields = Fields(body);
        if fields.take::<1>()? != [VERSION] {
            return Err(StateRefusal::Malformed);
        }
        let expires_at = u64::from_be_bytes(fields.take()?);
        let nonce = fields.take()?;
        let issued = BindingDigests {
            principal: fields.take()?,
            method: fields.take()?,
            target: fields.take()?,
            params: fields.take()?,
        };
        let [node_len] = fields.take()?;
        let (node, payload) = fields.0.split_at_checked(node_len.into()).ok_or(StateRefusal::Malformed)?;
        if now >= expires_at {
            return Err(StateRefusal::Expired);
        }
        issued.check(&BindingDigests::new(binding, mac))?;
        // Last, so that a node learns only of requests that the principal may send.
        if node != binding.node.as_bytes() {
            return Err(StateRefusal::OtherNode(String::from_utf8_lossy(node).into()));
        }
        Ok(Self { expires_at, nonce, payload: payload.to_vec() })
    }
}

/// The node that a `requestState` says to be of, which nothing proves. `None` if it does not have the
/// form of a state. It tells a state of another process, whose key nobody has, from a forged one.
pub fn claimed_node(text: &str) -> Option<Box<str>> {
    if text.len() > MAX_TEXT_LEN {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (body, _) = bytes.split_last_chunk::<TAG_LEN>()?;
    let rest = body.strip_prefix(&[VERSION])?.get(8 + NONCE_LEN + 4 * DIGEST_LEN..)?;
    let (node_len, rest) = rest.split_first()?;
    let node = rest.get(..usize::from(*node_len))?;
    std::str::from_utf8(node).ok().map(Box::from)
}

impl fmt::Debug for SealedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The payload may give access to a call.
        f.debug_struct("SealedState").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl StateRefusal {
    /// The refusal of the request. It does not say what is wrong, since only a host that tampers
    /// would profit from that.
    pub fn refusal(&self) -> Refusal {
        Refusal::invalid_params("requestState is not valid for this request")
    }
}

impl fmt::Display for StateRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the request state is malformed",
            Self::Forged => "the request state has a wrong tag",
            Self::Expired => "the request state has expired",
            Self::OtherPrincipal => "the request state was issued to another principal",
            Self::OtherNode(node) => return write!(f, "the request state was issued by node {node:?}"),
            Self::OtherMethod => "the request state was issued for another method",
            Self::OtherTarget => "the request state was issued for another tool, prompt or resource",
            Self::OtherParams => "the request state was issued for other params",
        })
    }
}

impl std::error::Error for StateRefusal {}

impl fmt::Display for StateTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the payload or the name of the node is too long for a request state")
    }
}

impl std::error::Error for StateTooLong {}

/// The format of the bytes.
const VERSION: u8 = 1;
/// Separates tags of states from other tags under the same key.
const SEAL_DOMAIN: &[u8] = b"bowline request state";
/// Length of the digest of a part of the binding.
const DIGEST_LEN: usize = 16;
/// Maximum length of the text: of all fields, in Base64.
const MAX_TEXT_LEN: usize =
    (1 + 8 + NONCE_LEN + 4 * DIGEST_LEN + 1 + MAX_NODE_LEN + MAX_PAYLOAD_LEN + TAG_LEN).div_ceil(3) * 4;

/// Digests of the parts of a binding, so that they can be compared one by one.
struct BindingDigests {
    principal: [u8; DIGEST_LEN],
    method: [u8; DIGEST_LEN],
    target: [u8; DIGEST_LEN],
    params: [u8; DIGEST_LEN],
}

impl BindingDigests {
    fn new(binding: &StateBinding<'_>, mac: &impl Mac) -> Self {
        let target = mirror::name_param(binding.method)
            .and_then(|name| binding.params?.member(name))
            .map(|target| target.decode::<String>().unwrap_or_else(|_| target.to_string()));
        Self {
            principal: digest_of(mac, b"principal", binding.principal.as_bytes()),
            method: digest_of(mac, b"method", binding.method.as_bytes()),
            target: digest_of(mac, b"target", target.unwrap_or_default().as_bytes()),
            params: digest_of(mac, b"params", &canonical_params(binding.params)),
        }
    }

    /// The digests in the order of their fields.
    fn in_order(&self) -> [&[u8; DIGEST_LEN]; 4] {
        let Self { principal, method, target, params } = self;
        [principal, method, target, params]
    }

    fn check(&self, presented: &Self) -> Result<(), StateRefusal> {
        let Self { principal, method, target, params } = self;
        for (issued, presented, refusal) in [
            (principal, &presented.principal, StateRefusal::OtherPrincipal),
            (method, &presented.method, StateRefusal::OtherMethod),
            (target, &presented.target, StateRefusal::OtherTarget),
            (params, &presented.params, StateRefusal::OtherParams),
        ] {
            if !is_equal(issued, presented) {
                return Err(refusal);
            }
        }
        Ok(())
    }
}

/// The fields of a state that are not read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StateRefusal> {
        let (field, rest) = self.0.split_first_chunk().ok_or(StateRefusal::Malformed)?;
        self.0 = rest;
        Ok(*field)
    }
}

/// Compares two tags in a time that does not depend on where they differ.
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    let difference = left.iter().zip(right).fold(0, |joined, (left, right)| joined | (left ^ right));
    left.len() == right.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests;
