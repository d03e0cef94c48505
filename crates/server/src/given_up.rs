//! The errors for a request that nobody serves any more, and for one whose response is gone.

use bowline_proto::server::UNREACHABLE;
use bowline_proto::server::requests::Turn;
use bowline_proto::wire::{Json, RpcError};

/// The error for a request that whoever served it has dropped, in the form in which a gateway reports
/// a server that failed. One that still waited for its turn was not executed.
pub(crate) fn given_up(turn: Turn) -> RpcError {
    let (told, data) = match turn {
        Turn::Running => {
            ("the server may have executed it", r#"{"bowline":{"cause":"closed","execution":"unknown"}}"#)
        }
        Turn::Waiting => {
            ("it was not executed", r#"{"bowline":{"cause":"closed","execution":"not_executed"}}"#)
        }
    };
    let message = format!("bowline: the request was given up ({told})");
    RpcError { code: UNREACHABLE, message, data: Some(Json::parse(data).expect("it is JSON")) }
}

/// The error for a request whose response was not read to its end before the connection broke or the process ended,
/// and is gone. The cause is `too_large` only if the response was too large to be kept.
pub(crate) fn response_lost(is_oversized: bool) -> RpcError {
    let (told, data) = if is_oversized {
        ("was too large to be kept", r#"{"bowline":{"cause":"too_large","execution":"unknown"}}"#)
    } else {
        ("is no longer kept", r#"{"bowline":{"cause":"closed","execution":"unknown"}}"#)
    };
    let message = format!(
        "bowline: the response was not read to its end, and {told} (the server may have executed the request)"
    );
    RpcError { code: UNREACHABLE, message, data: Some(Json::parse(data).expect("it is JSON")) }
}
