//! Which endpoint a path names, and whom a request to it comes from.

use std::sync::Arc;

use http::header::HeaderValue;

use super::refusal::Refusal;
use super::settings::HttpSettings;
use crate::audience::Audience;

/// What is served at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint<'a> {
    pub(crate) kind: EndpointKind,
    /// The view that the path names. There may be none of this name.
    view: Option<&'a str>,
}

/// The endpoints for hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    /// Streamable HTTP.
    Streamable,
    /// The event stream of HTTP+SSE.
    SseStream,
    /// The messages of HTTP+SSE.
    SseMessages,
}

impl<'a> Endpoint<'a> {
    /// Finds what is served at a path: an endpoint, or below it the name of a view if there are any.
    pub(crate) fn find(settings: &HttpSettings, path: &'a str) -> Option<Self> {
        let sse = settings.sse_paths.iter().flat_map(|sse| {
            [(&sse.stream, EndpointKind::SseStream), (&sse.messages, EndpointKind::SseMessages)]
        });
        let endpoints = || sse.clone().chain([(&settings.endpoint, EndpointKind::Streamable)]);
        if let Some((_, kind)) = endpoints().find(|(endpoint, _)| *endpoint == path) {
            return Some(Self { kind, view: None });
        }
        if settings.views.is_empty() && !settings.relays_pipes {
            return None;
        }
        let view_below = |endpoint: &String| path.strip_prefix(endpoint.as_str())?.strip_prefix('/');
        endpoints().find_map(|(endpoint, kind)| Some(Self { kind, view: Some(view_below(endpoint)?) }))
    }

    /// Decides who sends a request with this `Authorization` header, and which view it is for: by the
    /// tokens of the listener, and otherwise by those of its issuers, if it is a resource server.
    pub(crate) async fn authorize(
        &self,
        settings: &HttpSettings,
        authorization: Option<&[u8]>,
    ) -> Result<Audience, Refusal> {
        match (self.compare_tokens(settings, authorization), &settings.resource_server) {
            (Some(decision), _) => decision,
            (None, Some(oauth)) => oauth.authorize(&settings.views, self.view, authorization).await,
            (None, None) => Err(Refusal::Unauthorized(HeaderValue::from_static("Bearer"))),
        }
    }

    /// Decides by the tokens of the listener. `None` if the header has none of them, and one is needed.
    fn compare_tokens(
        &self,
        settings: &HttpSettings,
        authorization: Option<&[u8]>,
    ) -> Option<Result<Audience, Refusal>> {
        // Every token is compared, so that the time does not tell which one is close.
        let has_general = match &settings.bearer_token {
            Some(token) => token.is_in(authorization),
            None => settings.resource_server.is_none(),
        };
        let mut owner: Option<&Arc<str>> = None;
        for (name, token) in &settings.views {
            if token.as_ref().is_some_and(|token| token.is_in(authorization)) {
                owner = Some(name);
            }
        }
        Some(match (owner, self.view) {
            (Some(owner), None) => Ok(Audience::with_token_of(Arc::clone(owner))),
            (Some(owner), Some(view)) if **owner == *view => Ok(Audience::with_token_of(Arc::clone(owner))),
            // Whether there is such a view is none of its business.
            (Some(_), Some(_)) => Err(Refusal::OtherView),
            (None, _) if !has_general => return None,
            (None, None) => Ok(Audience::default()),
            (None, Some(view)) => match settings.views.get_key_value(view) {
                Some((name, _)) => Ok(Audience::of_view(Some(Arc::clone(name)))),
                // The pipe of the host had the view before. The gateway says that it was removed.
                None if settings.relays_pipes => Ok(Audience::of_view(Some(view.into()))),
                None => Err(Refusal::UnknownView),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> HttpSettings {
        HttpSettings::new()
            .with_sse("/sse", "/messages")
            .with_bearer_token("general")
            .with_view("a", Some("token-a"))
            .with_view("b", Some("token-b"))
            .with_view("open", None)
    }

    #[test]
    fn a_path_below_an_endpoint_names_a_view() {
        use EndpointKind::{SseMessages, SseStream, Streamable};
        for (path, expected) in [
            ("/mcp", Some((Streamable, None))),
            ("/mcp/a", Some((Streamable, Some("a")))),
            ("/mcp/", Some((Streamable, Some("")))),
            ("/mcp/a/b", Some((Streamable, Some("a/b")))),
            ("/mcpa", None),
            ("/sse/a", Some((SseStream, Some("a")))),
            ("/messages", Some((SseMessages, None))),
            ("/messages/b", Some((SseMessages, Some("b")))),
            ("/healthz", None),
            ("/", None),
        ] {
            let expected = expected.map(|(kind, view)| Endpoint { kind, view });
            assert_eq!(Endpoint::find(&settings(), path), expected, "{path}");
        }
        assert_eq!(Endpoint::find(&HttpSettings::new(), "/mcp/a"), None, "there are no views");
        assert_eq!(Endpoint::find(&HttpSettings::new(), "/sse"), None);
    }

    #[tokio::test]
    async fn a_token_of_a_view_opens_that_view_only() {
        let decide = async |path: &str, token: &str| {
            let header = format!("Bearer {token}");
            let header = (!token.is_empty()).then_some(header.as_bytes());
            match Endpoint::find(&settings(), path).unwrap().authorize(&settings(), header).await {
                Ok(audience) => audience.to_string(),
                Err(refusal) => format!("{refusal:?}"),
            }
        };
        for (path, token, expected) in [
            ("/mcp", "general", "/"),
            ("/mcp/a", "general", "/a"),
            ("/mcp/open", "general", "/open"),
            ("/mcp/none", "general", "UnknownView"),
            ("/mcp/", "general", "UnknownView"),
            ("/mcp", "token-a", "a/a"),
            ("/mcp/a", "token-a", "a/a"),
            ("/mcp/b", "token-a", "OtherView"),
            ("/mcp/open", "token-a", "OtherView"),
            ("/mcp/none", "token-a", "OtherView"),
            ("/mcp/b", "token-b", "b/b"),
            ("/mcp", "other", "Unauthorized(\"Bearer\")"),
            ("/mcp/a", "other", "Unauthorized(\"Bearer\")"),
            ("/mcp/none", "other", "Unauthorized(\"Bearer\")"),
            ("/mcp/a", "", "Unauthorized(\"Bearer\")"),
            ("/mcp/none", "", "Unauthorized(\"Bearer\")"),
        ] {
            assert_eq!(decide(path, token).await, expected, "{path} {token}");
        }
    }

    #[tokio::test]
    async fn without_tokens_paths_alone_select_a_view() {
        let settings = HttpSettings::new().with_view("a", None);
        let decide =
            async |path: &str| Endpoint::find(&settings, path).unwrap().authorize(&settings, None).await;
        assert_eq!(decide("/mcp").await.unwrap(), Audience::default());
        assert_eq!(decide("/mcp/a").await.unwrap().view(), Some("a"));
        assert!(matches!(decide("/mcp/b").await, Err(Refusal::UnknownView)));
    }

    /// A host on a pipe cannot select another view when its own was removed, also if none is left.
    #[tokio::test]
    async fn a_relayed_pipe_may_have_a_view_that_does_not_exist() {
        let settings = HttpSettings::new().with_relayed_pipes();
        let decide =
            async |path: &str| Endpoint::find(&settings, path).unwrap().authorize(&settings, None).await;
        assert_eq!(decide("/mcp/gone").await.unwrap().view(), Some("gone"));
        assert_eq!(decide("/mcp").await.unwrap(), Audience::default());
    }
}
