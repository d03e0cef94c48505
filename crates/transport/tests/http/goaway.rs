//! HTTP/2: requests that a server says it did not process, and the connection afterwards.

use crate::support::frames::{FramePeer, FrameServer, code};
use crate::support::post;
use crate::support::raw::settle;
use bowline_proto::fault::{Cause, Execution, Fault};

const MAX_CONCURRENT_STREAMS: u16 = 3;

/// Posts once and lets `refuse` handle the request, which is on stream 1.
async fn refused(refuse: impl AsyncFnOnce(&mut FramePeer)) -> Fault {
    let server = FrameServer::bind().await;
    let link = server.link();
    let (result, ()) = tokio::join!(post(&link), async {
        let mut peer = server.accept().await;
        assert_eq!(peer.request().await, 1);
        refuse(&mut peer).await;
    });
    let fault = result.unwrap_err();
    assert_eq!(fault.cause, Cause::Cut, "{fault}");
    fault
}

#[tokio::test]
async fn goaway_in_good_order_before_our_stream_means_not_executed() {
    let server = FrameServer::bind().await;
    let link = server.link();
    let (result, first) = tokio::join!(post(&link), async {
        let mut peer = server.accept().await;
        assert_eq!(peer.request().await, 1);
        peer.go_away(0, code::NO_ERROR).await;
        peer
    });
    let fault = result.unwrap_err();
    assert_eq!((&fault.cause, fault.execution), (&Cause::Cut, Execution::NotExecuted), "{fault}");
    // The old connection is still open, and the next try does not take it.
    let (result, _second) = tokio::join!(post(&link), async {
        let mut peer = server.accept().await;
        assert_eq!(peer.request().await, 1);
        peer.answer(1).await;
        peer
    });
    assert_eq!(result.unwrap().status, 200);
    drop(first);
}

#[tokio::test]
async fn goaway_that_includes_our_stream_leaves_the_outcome_unknown() {
    for last in [1, 0x7fff_ffff] {
        let fault = refused(async |peer| peer.go_away(last, code::NO_ERROR).await).await;
        assert_eq!(fault.execution, Execution::Unknown, "{last}: {fault}");
    }
}

#[tokio::test]
async fn goaway_for_an_error_leaves_the_outcome_unknown() {
    for error in [code::INTERNAL_ERROR, code::REFUSED_STREAM] {
        let fault = refused(async |peer| peer.go_away(0, error).await).await;
        assert_eq!(fault.execution, Execution::Unknown, "{error}: {fault}");
    }
}

#[tokio::test]
async fn only_a_refused_stream_means_not_executed_among_resets() {
    for (reset, execution) in [
        (code::REFUSED_STREAM, Execution::NotExecuted),
        (code::NO_ERROR, Execution::Unknown),
        (code::INTERNAL_ERROR, Execution::Unknown),
        (code::CANCEL, Execution::Unknown),
    ] {
        let server = FrameServer::bind().await;
        let link = server.link();
        let (result, mut peer) = tokio::join!(post(&link), async {
            let mut peer = server.accept().await;
            assert_eq!(peer.request().await, 1);
            peer.reset(1, reset).await;
            peer
        });
        let fault = result.unwrap_err();
        assert_eq!((&fault.cause, fault.execution), (&Cause::Cut, execution), "{reset}: {fault}");
        // The connection is not at fault.
        let (result, ()) = tokio::join!(post(&link), async {
            assert_eq!(peer.request().await, 3);
            peer.answer(3).await;
        });
        assert_eq!(result.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_close_after_the_request_leaves_the_outcome_unknown() {
    let fault = refused(async |_| {}).await;
    assert_eq!(fault.execution, Execution::Unknown, "{fault}");
}

#[tokio::test]
async fn a_connection_with_goaway_finishes_its_streams_and_takes_no_more() {
    let server = FrameServer::bind().await;
    let link = server.link();
    let (first, ()) = tokio::join!(post(&link), async {
        let mut old = server.accept().await;
        assert_eq!(old.request().await, 1);
        old.go_away(1, code::NO_ERROR).await;
        settle().await;
        let (second, _new) = tokio::join!(post(&link), async {
            let mut new = server.accept().await;
            assert_eq!(new.request().await, 1);
            new.answer(1).await;
            new
        });
        assert_eq!(second.unwrap().status, 200);
        // What was under way ends in good order, and nothing came after it.
        old.answer(1).await;
        assert_eq!(old.next_request().await, None);
    });
    assert_eq!(first.unwrap().status, 200);
}

#[tokio::test]
async fn a_kept_connection_with_goaway_is_replaced_unnoticed() {
    let server = FrameServer::bind().await;
    let link = server.link();
    let (result, mut old) = tokio::join!(post(&link), async {
        let mut peer = server.accept().await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer
    });
    assert_eq!(result.unwrap().status, 200);
    old.go_away(1, code::NO_ERROR).await;
    settle().await;
    let (result, _new) = tokio::join!(post(&link), async {
        let mut new = server.accept().await;
        let stream = new.request().await;
        new.answer(stream).await;
        new
    });
    assert_eq!(result.unwrap().status, 200);
    assert_eq!(old.next_request().await, None);
}

#[tokio::test]
async fn a_request_that_waited_for_a_stream_when_goaway_came_was_not_executed() {
    let server = FrameServer::bind().await;
    let link = server.link();
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = server.accept_with(&[(MAX_CONCURRENT_STREAMS, 1)]).await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer
    });
    assert_eq!(result.unwrap().status, 200);
    let (first, second, ()) = tokio::join!(post(&link), post(&link), async {
        assert_eq!(peer.request().await, 3);
        peer.go_away(3, code::NO_ERROR).await;
        peer.answer(3).await;
        // The second was never written.
        assert_eq!(peer.next_request().await, None);
    });
    assert_eq!(first.unwrap().status, 200);
    let fault = second.unwrap_err();
    assert_eq!((&fault.cause, fault.execution), (&Cause::Cut, Execution::NotExecuted), "{fault}");
}
