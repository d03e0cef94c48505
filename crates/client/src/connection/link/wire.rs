//! The sending side of a link, one variant per carrier.

use std::sync::Arc;

use bowline_proto::fault::Fault;
use bowline_proto::wire::outgoing::Frame;
use bowline_transport::http::HttpLink;
use bowline_transport::pipe::PipeWriter;
use http::HeaderMap;

use crate::connection::login::{Login, LoginMode, auth_refusal};

/// The sending side of a link.
#[derive(Clone)]
pub(crate) enum Wire {
    Pipe(PipeWriter),
    Http {
        link: HttpLink,
        headers: Arc<HeaderMap>,
    },
    /// HTTP+SSE: requests are posted; responses arrive on the stream that the link's reader holds.
    EventStream {
        post: HttpLink,
        headers: Arc<HeaderMap>,
    },
}

impl Wire {
    /// Whether each request is an HTTP exchange of its own.
    pub(crate) fn is_http(&self) -> bool {
        matches!(self, Self::Http { .. })
    }

    pub(crate) fn is_pipe(&self) -> bool {
        matches!(self, Self::Pipe(_))
    }

    /// Abandons idle connections after a request went unanswered, since the network may be at fault
    /// rather than the server.
    pub(crate) fn forget_connections(&self) {
        match self {
            Self::Http { link, .. } => link.forget_connections(),
            Self::EventStream { post, .. } => post.forget_connections(),
            Self::Pipe(_) => {}
        }
    }

    /// Sends a message that needs no response: a notification, or a response of ours.
    pub(crate) async fn send_one_way(&self, login: &Login, frame: &Frame) -> Result<Delivery, Fault> {
        match self {
            Self::Pipe(writer) => writer.send(frame).await.map(|()| Delivery::Accepted),
            Self::Http { link: post, headers } | Self::EventStream { post, headers } => {
                post_one_way(post, headers, login, frame).await
            }
        }
    }
}

/// What became of a message that needs no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Accepted,
    /// The server refused it, perhaps because it forgot the session.
    Refused,
}

async fn post_one_way(
    post: &HttpLink,
    headers: &HeaderMap,
    login: &Login,
    frame: &Frame,
) -> Result<Delivery, Fault> {
    let generation = login.credentials_generation();
    let mut answer = post.post(frame.body(), headers).await?;
    if let Some(refused) = auth_refusal(&answer) {
        login.reauthenticate(&refused, generation, "notification", LoginMode::Silent).await?;
        answer = post.post(frame.body(), headers).await?;
    }
    // Servers refuse messages of a session that they forgot with 404, and many with 400.
    let refused = matches!(answer.status, 400 | 404 | 410);
    Ok(if refused { Delivery::Refused } else { Delivery::Accepted })
}
