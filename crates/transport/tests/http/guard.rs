//! A server cannot make us contact an address that it could not reach itself.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::support::proxy::tunnel_once;
use crate::support::raw::RawServer;
use crate::support::tls::{Authority, ClientAuth};
use crate::support::{RecordedRequest, Server, json, reply, with};
use bowline_config::Tls;
use bowline_proto::fault::Cause;
use bowline_transport::http::{
    AddressSource, FetchError, Fetcher, Lookup, LookupFuture, Proxies, RefusalReason, Zone,
};
use bytes::Bytes;
use http::{Request, Response};

/// Returns one list of addresses after the other, and then an error.
#[derive(Debug, Default)]
struct ScriptedLookup {
    responses: Mutex<VecDeque<Vec<IpAddr>>>,
    lookups: Mutex<Vec<String>>,
}

impl ScriptedLookup {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|ips| ips.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        Arc::new(Self { responses: Mutex::new(answers), lookups: Mutex::default() })
    }

    fn asked(&self) -> usize {
        self.lookups.lock().len()
    }
}

impl Lookup for ScriptedLookup {
    fn lookup(&self, name: &str) -> LookupFuture {
        self.lookups.lock().push(name.to_owned());
        let answer = self.responses.lock().pop_front();
        Box::pin(std::future::ready(answer.ok_or_else(|| io::ErrorKind::NotFound.into())))
    }
}

fn fetch(lookup: &Arc<ScriptedLookup>) -> Fetcher {
    Fetcher::new(Tls::default(), Proxies::Direct).with_lookup(Arc::clone(lookup) as Arc<dyn Lookup>)
}

fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

#[track_caller]
fn refused(sent: Result<Response<Bytes>, FetchError>) -> (String, RefusalReason) {
    match sent {
        Err(FetchError::Refused(refusal)) => (refusal.host, refusal.reason),
        other => panic!("not refused: {other:?}"),
    }
}

// SE-01
#[tokio::test]
async fn se_01_addresses_in_the_url_are_refused_before_anything_is_looked_up() {
    let names = ScriptedLookup::new(&[]);
    let fetch = fetch(&names);
    for (url, host) in [
        ("http://169.254.169.254/", "169.254.169.254"),
        ("https://169.254.169.254/latest/", "169.254.169.254"),
        ("http://[::ffff:10.0.0.1]/", "[::ffff:a00:1]"),
        ("https://[::ffff:10.0.0.1]/", "[::ffff:a00:1]"),
        ("https://[fd00:ec2::254]/", "[fd00:ec2::254]"),
        ("https://192.168.1.1/", "192.168.1.1"),
        ("https://2130706433/", "127.0.0.1"),
        ("https://localhost:8443/", "localhost:8443"),
        ("http://as.test/", "as.test"),
    ] {
        assert_eq!(refused(fetch.send(get(url), AddressSource::Server(Zone::Public)).await).0, host);
    }
    assert_eq!(names.asked(), 0);
}

// SE-01
#[tokio::test]
async fn se_01_a_name_for_a_private_address_is_refused() {
    let listening = Server::start(async |_| json("{}")).await;
    let port = listening.address.port();
    for (ip, why) in [
        ("127.0.0.1", RefusalReason::TooPrivate(Zone::Loopback)),
        ("::ffff:127.0.0.1", RefusalReason::TooPrivate(Zone::Loopback)),
        ("10.0.0.1", RefusalReason::TooPrivate(Zone::Private)),
        ("100.64.0.1", RefusalReason::TooPrivate(Zone::Private)),
        ("fd12::1", RefusalReason::TooPrivate(Zone::Private)),
        ("169.254.169.254", RefusalReason::Special),
        ("fe80::1", RefusalReason::Special),
        ("0.0.0.0", RefusalReason::Special),
    ] {
        let names = ScriptedLookup::new(&[&[ip]]);
        let sent = fetch(&names)
            .send(get(&format!("https://as.test:{port}/")), AddressSource::Server(Zone::Public))
            .await;
        assert_eq!(refused(sent), (format!("as.test:{port}"), why), "{ip}");
    }
    for guard in [AddressSource::Server(Zone::Private), AddressSource::Server(Zone::Loopback)] {
        let names = ScriptedLookup::new(&[&["169.254.169.254"]]);
        assert_eq!(
            refused(fetch(&names).send(get("https://as.test/"), guard).await).1,
            RefusalReason::Special
        );
    }
    assert_eq!(listening.connections(), 0);
}

// SE-02: the checked address is the one that is connected to.
#[tokio::test]
async fn se_02_a_rebinding_name_is_refused() {
    let server = Server::start(async |seen: RecordedRequest| match seen.uri.path() {
        "/" => with(reply(302, "", ""), "location", "/again"),
        _ => json("{}"),
    })
    .await;
    let url = |path: &str| format!("http://localhost:{}{path}", server.address.port());
    let guard = AddressSource::Server(Zone::Loopback);

    // One lookup is enough: a second one would return another address.
    let names = ScriptedLookup::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    assert_eq!(fetch(&names).send(get(&url("/answer")), guard).await.unwrap().status(), 200);
    assert_eq!(names.asked(), 1);
    // The next request looks the name up again, and is checked again.
    assert_eq!(refused(fetch(&names).send(get(&url("/answer")), guard).await).1, RefusalReason::Special);

    // So is each hop.
    let names = ScriptedLookup::new(&[&["127.0.0.1"], &["10.0.0.1"]]);
    assert_eq!(refused(fetch(&names).send(get(&url("/")), guard).await).1, RefusalReason::NotSecure);
    assert_eq!(names.asked(), 2);

    // Of several addresses only the good ones are used.
    let names = ScriptedLookup::new(&[&["10.0.0.1", "169.254.169.254", "127.0.0.1"]]);
    assert_eq!(fetch(&names).send(get(&url("/answer")), guard).await.unwrap().status(), 200);
    assert_eq!(server.seen().len(), 3);
}

// SE-02
#[tokio::test]
async fn se_02_a_redirect_is_checked_like_the_address_that_was_named() {
    for (location, why) in [
        ("http://169.254.169.254/latest/", RefusalReason::Special),
        ("http://10.0.0.1/", RefusalReason::TooPrivate(Zone::Private)),
        ("https://10.0.0.1/", RefusalReason::TooPrivate(Zone::Private)),
        ("https://127.0.0.1/", RefusalReason::TooPrivate(Zone::Loopback)),
        ("https://localhost/", RefusalReason::TooPrivate(Zone::Loopback)),
        ("http://server.test/", RefusalReason::NotSecure),
        ("https://user:pass@server.test/", RefusalReason::Credentials),
        ("file:///etc/passwd", RefusalReason::NotHttp),
    ] {
        let authority = Authority::new();
        let server = Server::start_with(Some(authority.server(&[], ClientAuth::Any)), move |_| {
            std::future::ready(with(reply(302, "", ""), "location", location))
        })
        .await;
        // Through a proxy, because only from its network is this server a public one.
        let raw = RawServer::bind().await;
        let proxies = Proxies::Fixed { http: String::new(), https: raw.url(), bypass: String::new() };
        let fetch = Fetcher::new(authority.trust(), proxies);
        let request = get("https://server.test/");
        let (sent, _) = tokio::join!(
            fetch.send(request, AddressSource::Server(Zone::Public)),
            tunnel_once(&raw, server.address)
        );
        assert_eq!(refused(sent).1, why, "{location}");
        assert_eq!(server.seen().len(), 1);
    }
}

// SE-02: the user chose the first address, but the server the next.
#[tokio::test]
async fn se_02_where_a_chosen_address_redirects_to_is_guarded() {
    for (location, why) in
        [("http://169.254.169.254/", RefusalReason::Special), ("http://8.8.8.8/", RefusalReason::NotSecure)]
    {
        let server =
            Server::start(move |_| std::future::ready(with(reply(302, "", ""), "location", location))).await;
        // A name, so that the redirecting server counts as private and not as loopback.
        let url = format!("http://name.test:{}/", server.address.port());
        let names = ScriptedLookup::new(&[&["127.0.0.1"], &["127.0.0.1"]]);
        assert_eq!(refused(fetch(&names).send(get(&url), AddressSource::User).await).1, why);
    }
    let other = Server::start(async |_| json("{}")).await;
    let location = other.url();
    let server =
        Server::start(move |_| std::future::ready(with(reply(302, "", ""), "location", &location))).await;
    let url = format!("http://name.test:{}/", server.address.port());
    let names = ScriptedLookup::new(&[&["127.0.0.1"], &["127.0.0.1"]]);
    let sent = fetch(&names).send(get(&url), AddressSource::User).await;
    assert_eq!(refused(sent).1, RefusalReason::TooPrivate(Zone::Loopback));
    assert_eq!(other.connections(), 0);
}

// SE-02: a server that was reached at a public address is public, whatever its name resolves to
// later.
#[tokio::test]
async fn se_02_a_server_that_was_public_once_is_not_private_later() {
    let url = "https://s.test/".parse().unwrap();
    let (near, far): (&[&str], &[&str]) = (&["10.0.0.1"], &["8.8.8.8"]);
    for (answers, zones) in [
        ([near, far, near], [Zone::Private, Zone::Public, Zone::Public]),
        ([far, near, near], [Zone::Public, Zone::Public, Zone::Public]),
        ([near, near, near], [Zone::Private, Zone::Private, Zone::Private]),
    ] {
        let fetch = fetch(&ScriptedLookup::new(&answers));
        for zone in zones {
            assert_eq!(fetch.find_zone(&url).await, Ok(zone), "{answers:?}");
        }
    }
    // The server redirects us from an address that is not private into a private network. Only
    // loopback answers in a test, so an address outside all zones stands for a public one.
    let location = "https://10.0.0.1/";
    let server =
        Server::start(move |_| std::future::ready(with(reply(302, "", ""), "location", location))).await;
    let url = format!("http://s.test:{}/", server.address.port());
    let names = ScriptedLookup::new(&[&["0.0.0.0", "127.0.0.1"], near]);
    let sent = fetch(&names).send(get(&url), AddressSource::User).await;
    assert_eq!(refused(sent).1, RefusalReason::TooPrivate(Zone::Private));
}

#[tokio::test]
async fn a_zone_is_that_of_the_farthest_address() {
    let zone = async |url: &str, answers: &[&[&str]]| {
        let names = ScriptedLookup::new(answers);
        fetch(&names).find_zone(&url.parse().unwrap()).await
    };
    for (url, expected) in [
        ("http://127.0.0.1:3000/", Zone::Loopback),
        ("http://localhost/", Zone::Loopback),
        ("http://0.0.0.0:3000/", Zone::Loopback),
        ("http://192.168.1.2/", Zone::Private),
        ("https://8.8.8.8/", Zone::Public),
        ("http://169.254.1.1/", Zone::Public),
    ] {
        assert_eq!(zone(url, &[]).await, Ok(expected), "{url}");
    }
    assert_eq!(zone("https://s.test/", &[&["10.0.0.1"]]).await, Ok(Zone::Private));
    assert_eq!(zone("https://s.test/", &[&["10.0.0.1", "8.8.8.8"]]).await, Ok(Zone::Public));
    assert_eq!(zone("https://s.test/", &[&["127.0.0.1"]]).await, Ok(Zone::Private));
    assert_eq!(zone("https://s.test/", &[]).await.unwrap_err().cause, Cause::Dns);
    assert_eq!(zone("https://s.test/", &[&[]]).await.unwrap_err().cause, Cause::Dns);
    // Only the proxy can resolve the name.
    let proxies =
        Proxies::Fixed { http: String::new(), https: "http://proxy.test".into(), bypass: String::new() };
    let names = ScriptedLookup::new(&[]);
    let fetch = Fetcher::new(Tls::default(), proxies).with_lookup(Arc::clone(&names) as Arc<dyn Lookup>);
    assert_eq!(fetch.find_zone(&"https://s.test/".parse().unwrap()).await, Ok(Zone::Public));
    assert_eq!(names.asked(), 0);
}
