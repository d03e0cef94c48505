//! The body of a request, and the proof that it was never sent.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::fence::{SendFence, SendWindow};

/// The body of a request: one chunk, or nothing.
#[derive(Debug, Default)]
pub(super) struct Payload {
    data: Option<Bytes>,
    taken: Option<Arc<AtomicBool>>,
    /// The window in which it may be sent. Few requests have one, so the field is kept small.
    fence: Option<Box<(SendFence, SendWindow)>>,
}

/// The send window passed before the body was written.
#[derive(Debug)]
pub(super) struct SendWindowExpired;

/// Tells whether the connection has taken the body of a request.
///
/// Over HTTP/2 the bytes of many requests share one socket, so counting them proves nothing about
/// one request. A message whose body was never taken cannot have reached the server complete, and
/// half a message is not executed.
#[derive(Debug)]
pub(super) struct PayloadWatch(Option<Arc<AtomicBool>>);

impl Payload {
    pub(super) fn new(data: Bytes) -> Self {
        Self { data: (!data.is_empty()).then_some(data), taken: None, fence: None }
    }

    /// Allows the payload to be sent only within `window`.
    pub(super) fn with_fence(self, fence: &SendFence, window: SendWindow) -> Self {
        Self { fence: Some(Box::new((fence.clone(), window))), ..self }
    }

    pub(super) fn watch(&mut self) -> PayloadWatch {
        if self.data.is_some() {
            self.taken = Some(Arc::default());
        }
        PayloadWatch(self.taken.clone())
    }
}

impl PayloadWatch {
    /// Whether there was a body and none of it was taken.
    pub(super) fn is_untouched(&self) -> bool {
        self.0.as_ref().is_some_and(|taken| !taken.load(Ordering::SeqCst))
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = SendWindowExpired;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendWindowExpired>>> {
        // The connection polls the body when it is about to write it.
        if let Some(fence) = &self.fence
            && !fence.0.check_window(fence.1)
        {
            return Poll::Ready(Some(Err(SendWindowExpired)));
        }
        if let Some(taken) = &self.taken {
            taken.store(true, Ordering::SeqCst);
        }
        Poll::Ready(self.data.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}

impl fmt::Display for SendWindowExpired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the program stood still before the request was sent")
    }
}

impl std::error::Error for SendWindowExpired {}
