//! Decides which URLs a server may send a person to, by the rule for addresses chosen by a server
//! (SE-01). A browser reaches addresses that the server does not, and a URL of a private network
//! can trigger actions there.

use bowline_config::{Server, Tls};
use bowline_proto::wire::{Json, method};
use bowline_transport::http::{AddressRefusal, Fetcher, Proxies, Zone};
use url::Url;

/// The URL rule of one server.
#[derive(Debug)]
pub(crate) struct UrlGuard {
    /// URL of the server; `None` for a local process, which may name any URL.
    server: Option<Url>,
    fetch: Fetcher,
}

impl UrlGuard {
    pub(crate) fn for_server(server: &Server) -> Self {
        let server = server.transport.http().map(|http| http.url.clone());
        Self { server, fetch: Fetcher::new(Tls::default(), Proxies::System) }
    }

    /// Checks the URL of an elicitation request. Requests without a URL pass, for the handler to
    /// judge.
    pub(crate) async fn check(&self, asked: &str, params: &Json) -> Result<(), AddressRefusal> {
        let (Some(server), Some(page)) = (&self.server, elicited_url(asked, params)) else { return Ok(()) };
        if page.origin() == server.origin() {
            return Ok(());
        }
        // A server that cannot be resolved now counts as public.
        let zone = self.fetch.find_zone(server).await.unwrap_or(Zone::Public);
        self.fetch.check_browser_url(&page, zone).await
    }
}

fn elicited_url(asked: &str, params: &Json) -> Option<Url> {
    let text = |name: &str| params.member(name)?.decode::<String>().ok();
    if asked != method::ELICIT || text("mode").as_deref() != Some("url") {
        return None;
    }
    Url::parse(&text("url")?).ok()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use bowline_transport::http::{Lookup, LookupFuture, RefusalReason};
    use serde_json::json;

    use super::*;

    /// Resolves a name by its first label.
    #[derive(Debug)]
    struct StubResolver;

    impl Lookup for StubResolver {
        fn lookup(&self, name: &str) -> LookupFuture {
            let ip: Option<IpAddr> = match name.split('.').next().unwrap_or_default() {
                "public" => Some([8, 8, 8, 8].into()),
                "private" => Some([10, 0, 0, 1].into()),
                _ => None,
            };
            let found = ip.map(|ip| vec![ip]).ok_or_else(|| std::io::ErrorKind::NotFound.into());
            Box::pin(std::future::ready(found))
        }
    }

    async fn checked(server: Server, page: &str) -> Result<(), RefusalReason> {
        let mut guard = UrlGuard::for_server(&server);
        guard.fetch = Fetcher::new(Tls::default(), Proxies::Direct).with_lookup(Arc::new(StubResolver));
        let params = Json::encode(&json!({ "mode": "url", "message": "m", "url": page })).unwrap();
        guard.check(method::ELICIT, &params).await.map_err(|refusal| refusal.reason)
    }

    fn server_at(url: &str) -> Server {
        Server::http("s", url).build().unwrap()
    }

    // SE-01
    #[tokio::test]
    async fn se_01_a_url_is_not_nearer_than_its_server() {
        let public = || server_at("https://public.test/mcp");
        for page in ["http://127.0.0.1:8080/", "http://localhost/", "https://[::1]/"] {
            assert_eq!(
                checked(public(), page).await,
                Err(RefusalReason::TooPrivate(Zone::Loopback)),
                "{page}"
            );
        }
        for page in [
            "http://10.0.0.1/",
            "https://private.test/",
            "http://0xa.1/",
            "https://intranet/",
            "http://a.local/",
        ] {
            assert_eq!(
                checked(public(), page).await,
                Err(RefusalReason::TooPrivate(Zone::Private)),
                "{page}"
            );
        }
        assert_eq!(checked(public(), "http://169.254.169.254/").await, Err(RefusalReason::Special));
        for page in
            ["https://public.test/", "https://public.other.test/", "http://8.8.8.8/", "https://unknown.test/"]
        {
            assert_eq!(checked(public(), page).await, Ok(()), "{page}");
        }
        assert_eq!(checked(server_at("https://private.test/mcp"), "https://10.0.0.2/").await, Ok(()));
        let nearer = checked(server_at("https://private.test/mcp"), "http://127.0.0.1/").await;
        assert_eq!(nearer, Err(RefusalReason::TooPrivate(Zone::Loopback)));
    }

    #[tokio::test]
    async fn a_local_server_names_any_url() {
        for server in [server_at("http://127.0.0.1:1/mcp"), Server::stdio("s", "x").build().unwrap()] {
            for page in ["http://127.0.0.1/", "http://10.0.0.1/", "https://public.test/", "https://intranet/"]
            {
                assert_eq!(checked(server.clone(), page).await, Ok(()), "{page}");
            }
        }
    }
}
