//! [`Browser`]: a headless browser that plays a person at the authorization pages.

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::{Url, form_urlencoded};

use super::authorize::DECISION_HEADER;

/// Opens an authorize URL, approves, and returns the URL the client would be redirected to.
pub async fn follow_authorize_url(url: &str) -> String {
    Browser::new().follow(url).await
}

/// Returns the URL with one parameter of its query replaced or removed.
pub fn with_query_parameter(url: &str, name: &str, value: Option<&str>) -> String {
    let mut url = Url::parse(url).expect("a URL");
    let pairs: Vec<(String, String)> =
        url.query_pairs().filter(|(n, _)| n != name).map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
    url.query_pairs_mut().clear().extend_pairs(pairs).extend_pairs(value.map(|value| (name, value)));
    url.into()
}

/// A headless browser that follows an authorize URL to its redirect, filling in forms with a fixed
/// decision. Loopback and plain HTTP only.
///
/// ```no_run
/// # async fn example(url: &str) {
/// use bowline_testkit::{Browser, follow_authorize_url, with_query_parameter};
///
/// let back = follow_authorize_url(url).await;  // the redirect, not opened
/// Browser::new().visit(&with_query_parameter(&back, "state", Some("x"))).await;
/// Browser::new().visit(&back).await;           // the client's listener
/// Browser::new().visit(&back).await;           // and again, as people do
/// Browser::new().deny().login(url).await;      // denies, and opens the redirect
/// # }
/// ```
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct Browser {
    deny: bool,
    account: Option<String>,
}

/// A page as the browser received it.
#[derive(Clone, Debug)]
pub struct WebPage {
    /// The HTTP status.
    pub status: u16,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Browser {
    /// Returns a browser that approves, with the account the server suggests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the browser deny.
    pub fn deny(mut self) -> Self {
        self.deny = true;
        self
    }

    /// Makes the browser log in with this account, if there is a form to do so.
    pub fn account(mut self, name: &str) -> Self {
        self.account = Some(name.into());
        self
    }

    /// Follows an authorize URL and returns the redirect it ends in, without opening it. Panics
    /// with the page if it ends elsewhere.
    pub async fn follow(&self, url: &str) -> String {
        let decision = if self.deny { "deny" } else { "approve" };
        let mut page =
            send("GET", url, &[(DECISION_HEADER, "deny")][..usize::from(self.deny)], String::new()).await;
        if page.status == 200 && page.body.contains("<form") {
            let mut fields = form_inputs(&page.body);
            if let Some(account) = &self.account {
                fields.retain(|(name, _)| name != "account");
                fields.push(("account".into(), account.clone()));
            }
            fields.push(("decision".into(), decision.into()));
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            let action = attribute(&page.body, "action").expect("the form has an action");
            let action = Url::parse(url).and_then(|url| url.join(&action)).expect("the action is a URL");
            let kind = [("content-type", "application/x-www-form-urlencoded")];
            page = send("POST", action.as_str(), &kind, body).await;
        }
        match page.header("location") {
            Some(to) if (300..400).contains(&page.status) => to.to_owned(),
            _ => panic!("{url} does not lead back: {page:?}"),
        }
    }

    /// Opens a URL, for instance the redirect that a client listens for.
    pub async fn visit(&self, url: &str) -> WebPage {
        send("GET", url, &[], String::new()).await
    }

    /// Follows an authorize URL and opens the redirect.
    pub async fn login(&self, url: &str) -> WebPage {
        self.visit(&self.follow(url).await).await
    }
}

impl WebPage {
    /// Returns the first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

async fn send(method: &str, url: &str, headers: &[(&str, &str)], body: String) -> WebPage {
    let url = Url::parse(url).expect("a URL");
    let (host, port) = (url.host_str().expect("a host"), url.port_or_known_default().expect("a port"));
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await;
    let stream = stream.unwrap_or_else(|error| panic!("{url} cannot be reached: {error}"));
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    let connection = tokio::spawn(connection);
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut request = Request::builder().method(method).uri(target).header("host", format!("{host}:{port}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).expect("a request");
    let response = sender.send_request(request).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    connection.abort();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    WebPage {
        status: head.status.as_u16(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
            .collect(),
        body: text(&body),
    }
}

/// Returns the fields of a form made by this test server.
fn form_inputs(html: &str) -> Vec<(String, String)> {
    html.split("<input ")
        .skip(1)
        .filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value")?)))
        .collect()
}

fn attribute(html: &str, name: &str) -> Option<String> {
    let (_, rest) = html.split_once(&format!("{name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}
