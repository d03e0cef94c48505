//! [`Refusal`]: why a request gets no service, and what its host is told.

use bowline_proto::server::event_streams::ResumeError;
use bowline_proto::server::http::{GuardRefusal, PostRefusal, VersionRefusal};
use bowline_proto::server::modern;
use bowline_proto::wire::{Id, RpcError, code};
use http::StatusCode;
use http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

use super::journal::JournalUnavailable;
use super::reply::{self, Reply};
use super::request_body::BodyRefusal;

/// Why a request gets no service.
#[derive(Debug)]
pub(crate) enum Refusal {
    Guard(GuardRefusal),
    /// The token is missing, or is none of the listener. The header says how to get one.
    Unauthorized(HeaderValue),
    /// The access token is not valid. The header says how to get another one.
    InvalidToken(HeaderValue),
    /// The access token lacks a scope. The header says which scopes are needed.
    InsufficientScope(HeaderValue),
    /// It cannot be found out now whether the access token is valid.
    UnverifiedToken,
    /// The token is that of another view.
    OtherView,
    /// The access token opens several views, and the path names none.
    SeveralViews,
    /// There is no view of the name in the path.
    UnknownView,
    /// Only these methods are allowed.
    Method(&'static str),
    ContentType,
    /// No format that the host accepts can be used.
    Accept,
    Body(BodyRefusal),
    Post(PostRefusal),
    Version(VersionRefusal),
    /// The session is unknown or has ended; the host is not told which.
    UnknownSession,
    Resume(ResumeError),
    /// A session cannot be found, or a stream cannot be resumed, before what was recorded of it can be loaded.
    Journal(JournalUnavailable),
    /// A limit of the host, of its identity or of the listener is reached, with the error for this request of it.
    Limit(Option<Id>, RpcError),
    /// No more sessions are accepted.
    Draining,
    /// A request of a host without a session.
    Stateless(Id, modern::Refusal),
}

/// What a host is told that names a view which does not exist. Others are not named.
const NO_SUCH_VIEW: &str = "there is no such view";
/// How long a host that was refused for lack of room should wait, in seconds.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("5");

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::UnknownView = refusal {
            // Not in the form of an error of a session, after which a host would begin another one.
            return reply::text(refusal.status(), NO_SUCH_VIEW);
        }
        let error = match &refusal {
            Refusal::Stateless(_, refusal) => refusal.error.clone(),
            Refusal::Limit(_, error) => error.clone(),
            _ => RpcError::new(refusal.code(), refusal.message()),
        };
        let id = match &refusal {
            Refusal::Post(refusal) => refusal.id(),
            Refusal::Stateless(id, _) => Some(id),
            Refusal::Limit(id, _) => id.as_ref(),
            _ => None,
        };
        let mut reply = reply::error(refusal.status(), id, &error);
        if let Some((name, value)) = refusal.header() {
            reply.headers_mut().insert(name, value);
        }
        reply
    }
}

impl Refusal {
    /// The refusal of this request, if that matters to what its host is told.
    pub(crate) fn of_request(self, id: Option<Id>) -> Self {
        match self {
            Self::Limit(_, error) => Self::Limit(id, error),
            other => other,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Guard(_) | Self::OtherView | Self::SeveralViews | Self::InsufficientScope(_) => {
                StatusCode::FORBIDDEN
            }
            Self::Unauthorized(_) | Self::InvalidToken(_) => StatusCode::UNAUTHORIZED,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
            Self::Body(BodyRefusal::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyRefusal::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(BodyRefusal::Broken) => StatusCode::BAD_REQUEST,
            Self::Post(_) | Self::Version(_) => StatusCode::BAD_REQUEST,
            Self::Stateless(_, refusal) => {
                StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST)
            }
            // Some hosts wait forever for the response to a request that gets another status, and others
            // take it for a broken connection. In this one they find the error of their request.
            Self::Limit(Some(_), _) => StatusCode::OK,
            Self::Limit(None, _) => StatusCode::TOO_MANY_REQUESTS,
            // HL-03: a host begins another session after 404.
            Self::UnknownSession | Self::UnknownView => StatusCode::NOT_FOUND,
            // Not 404, which would end the session for the host. It knows by this that the stream is
            // lost, and with it the response that it waited for there; the session goes on.
            Self::Resume(_) => StatusCode::BAD_REQUEST,
            Self::Body(BodyRefusal::NoMemory)
            | Self::Draining
            | Self::UnverifiedToken
            | Self::Journal(JournalUnavailable) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn code(&self) -> i64 {
        match self {
            Self::Post(PostRefusal::Malformed(malformed)) => malformed.defect.to_error().code,
            _ if self.status() == StatusCode::SERVICE_UNAVAILABLE => code::INTERNAL_ERROR,
            _ => code::INVALID_REQUEST,
        }
    }

    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Unauthorized(challenge)
            | Self::InvalidToken(challenge)
            | Self::InsufficientScope(challenge) => Some((WWW_AUTHENTICATE, challenge.clone())),
            Self::Method(allowed) => Some((ALLOW, HeaderValue::from_static(allowed))),
            Self::Limit(None, _) => Some((RETRY_AFTER, RETRY_AFTER_SECONDS)),
            _ if self.status() == StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, RETRY_AFTER_SECONDS)),
            _ => None,
        }
    }

    fn message(&self) -> String {
        let message = match self {
            Self::Guard(refusal) => return refusal.to_string(),
            Self::Post(refusal) => return refusal.to_string(),
            Self::Version(refusal) => return refusal.to_string(),
            Self::Resume(refusal) => return refusal.to_string(),
            Self::Stateless(_, refusal) => return refusal.to_string(),
            Self::Limit(_, error) => return error.message.clone(),
            Self::Unauthorized(_) => "a bearer token is required",
            Self::InvalidToken(_) => "the access token is not valid",
            Self::InsufficientScope(_) => "the access token lacks a scope",
            Self::UnverifiedToken => "access tokens cannot be verified now",
            Self::OtherView => "this token is for another view",
            Self::SeveralViews => "this token opens several views: the path has to name one of them",
            Self::UnknownView => NO_SUCH_VIEW,
            Self::Method(_) => "this method is not allowed",
            Self::ContentType => "Content-Type must be application/json",
            Self::Accept => "Accept must allow application/json or text/event-stream",
            Self::Body(BodyRefusal::TooLarge) => "the message is too large",
            Self::Body(BodyRefusal::TooSlow) => "the body did not arrive in time",
            Self::Body(BodyRefusal::Broken) => "the body cannot be read",
            Self::Body(BodyRefusal::NoMemory) => "there are too many large messages",
            Self::UnknownSession => "no such session",
            Self::Journal(JournalUnavailable) => "what was recorded cannot be loaded now",
            Self::Draining => "no more sessions are accepted",
        };
        message.to_owned()
    }
}

macro_rules! from {
    ($($Inner:ident => $Variant:ident,)*) => {
        $(impl From<$Inner> for Refusal {
            fn from(refusal: $Inner) -> Self {
                Self::$Variant(refusal)
            }
        })*
    };
}

from! {
    BodyRefusal => Body,
    GuardRefusal => Guard,
    JournalUnavailable => Journal,
    PostRefusal => Post,
    ResumeError => Resume,
    VersionRefusal => Version,
}
