//! [`Via`]: the gateways between a program and its host, so that one that leads back to itself is found.
//!
//! A gateway adds its id for the servers behind it: in a header of every HTTP request, and in a variable of the
//! environment of a process. One that finds its own id there is among its own servers. A proxy may drop headers, and a
//! command the variables, so the ids are also in `_meta` of `initialize`, and of each request of 2026-07-28.

use std::fmt;
use std::sync::Arc;

use serde_json::json;

use crate::wire::{Json, RpcError};

/// The code of an error that no server sent: the connection to it failed, or its response was not
/// waited for.
///
/// It is outside of -32768 to -32000, where each code belongs to JSON-RPC or to the protocol, or is read by hosts as
/// what some server means by it: a closed connection, a lost session, a timeout or a missing resource.
// BM-07
pub const UNREACHABLE: i64 = -31050;
/// The header that carries the ids.
pub const VIA_HEADER: &str = "bowline-via";
/// The variable that carries the ids to processes.
pub const VIA_VARIABLE: &str = "BOWLINE_VIA";
/// The member of `_meta` that carries the ids.
pub const VIA_META: &str = "bowline/via";
/// Most ids that are carried. A chain that is longer is taken for a loop.
pub const MAX_HOPS: usize = 16;
/// Longest id, in bytes.
const MAX_ID_BYTES: usize = 64;

/// The ids of the gateways that a request has passed, the first one first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Via(Arc<[Box<str>]>);

impl Via {
    /// Reads the ids from a header or a variable. What is no id is left out, and so is what comes after
    /// [`MAX_HOPS`] of them.
    pub fn parse(text: &str) -> Self {
        let ids = text.split(',').map(str::trim).filter(|id| is_id(id));
        Self(ids.take(MAX_HOPS).map(Box::from).collect())
    }

    /// Reads the ids from `_meta` of the params of a request.
    pub fn of_params(params: Option<&Json>) -> Self {
        let text =
            params.and_then(|params| params.member("_meta")?.member(VIA_META)?.decode::<String>().ok());
        text.map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Returns these ids, and those of `other` that are not among them, as many as can be carried.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let more = other.0.iter().filter(|id| !self.contains(id));
        Self(self.0.iter().chain(more).take(MAX_HOPS).cloned().collect())
    }

    /// Whether no gateway was passed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the gateway with this id was passed.
    pub fn contains(&self, id: &str) -> bool {
        self.0.iter().any(|passed| **passed == *id)
    }

    /// Whether no further id can be carried.
    pub fn is_full(&self) -> bool {
        self.0.len() >= MAX_HOPS
    }

    /// Returns the ids with one more.
    ///
    /// # Panics
    /// If it is no id: 1 to 64 letters, digits and dashes.
    #[must_use]
    pub fn with(&self, id: &str) -> Self {
        assert!(is_id(id), "{id:?} is no id of a gateway");
        Self(self.0.iter().cloned().chain([Box::from(id)]).collect())
    }
}

/// The value of the header and of the variable.
impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(fits)
}

/// The error for a gateway that is reached through itself.
pub fn loop_error(why: &str) -> RpcError {
    let message = format!("bowline: {why} (the request was not executed)");
    let facts = json!({ "bowline": { "cause": LOOP_CAUSE, "execution": "not_executed" } });
    RpcError { code: UNREACHABLE, message, data: Json::encode(&facts).ok() }
}

/// Whether this is the error of a gateway that is reached through itself.
pub fn is_loop_error(error: &RpcError) -> bool {
    let cause = error.data.as_ref().and_then(|data| data.member("bowline")?.member("cause"));
    error.code == UNREACHABLE
        && cause.and_then(|cause| cause.decode::<String>().ok()).as_deref() == Some(LOOP_CAUSE)
}

/// The cause in the data of the error.
const LOOP_CAUSE: &str = "loop";

#[cfg(test)]
mod tests {
    use super::*;

    /// BM-07: the only code that is not the protocol's is outside of the range that is reserved.
    #[test]
    fn bm_07_our_own_code_is_outside_of_the_reserved_range() {
        assert!(!(-32_768..=-32_000).contains(&UNREACHABLE));
    }

    #[test]
    fn ids_survive_the_way_and_nothing_else_does() {
        let via = Via::default().with("a1").with("b-2");
        assert_eq!(via.to_string(), "a1,b-2");
        assert_eq!(Via::parse(" a1 ,b-2,"), via);
        assert!(via.contains("b-2") && !via.contains("b") && !via.is_full());
        assert_eq!(Via::parse("a b,\u{e9},c;d,,x"), Via::default().with("x"));
        assert_eq!(Via::parse(&"z".repeat(MAX_ID_BYTES + 1)), Via::default());
        let many = Via::parse(&"a,".repeat(100));
        assert!(many.is_full() && many.0.len() == MAX_HOPS);
    }

    #[test]
    fn ids_in_meta_are_joined_with_those_of_the_transport() {
        let params = Json::try_from(r#"{"_meta":{"bowline/via":"a,b,c"}}"#).unwrap();
        let found = Via::of_params(Some(&params));
        assert_eq!(found.to_string(), "a,b,c");
        assert_eq!(Via::parse("x,b").joined(&found).to_string(), "x,b,a,c");
        assert!(Via::parse(&"a,".repeat(100)).joined(&found).is_full());
        for odd in ["{}", r#"{"_meta":5}"#, r#"{"_meta":{"bowline/via":[]}}"#] {
            assert!(Via::of_params(Some(&Json::try_from(odd).unwrap())).is_empty());
        }
        assert!(Via::of_params(None).is_empty());
    }

    #[test]
    fn a_loop_is_told_from_other_errors() {
        assert!(is_loop_error(&loop_error("x")));
        assert!(!is_loop_error(&RpcError::new(UNREACHABLE, "loop")));
    }
}
