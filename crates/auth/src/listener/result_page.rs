//! Renders the page that a person sees after the redirect: plain text, with no active content.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
};
use http::{Response, StatusCode};
use http_body_util::Full;
use ring::digest::{SHA256, digest};

/// The page at the end of a browser visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResultPage {
    /// The login succeeded: the application can use this server now.
    LoggedIn { app: String, server: String },
    /// The login to this server failed, for this reason.
    Failed { server: String, why: String },
    /// The redirect belongs to no login that is waiting here.
    UnknownLogin,
    /// No page has this address.
    NotFound,
}

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// Allows exactly one style; nothing can be loaded, run, framed or sent.
static CONTENT_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = BASE64_STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("visible ASCII")
});

impl ResultPage {
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.html())));
        *response.status_mut() = match self {
            Self::LoggedIn { .. } => StatusCode::OK,
            Self::Failed { .. } | Self::UnknownLogin => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, CONTENT_POLICY.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        for (name, value) in [
            // The address contains the code.
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        response
    }

    fn html(&self) -> String {
        let close = "You can close this tab.";
        let (class, title, text, next) = match self {
            Self::LoggedIn { app, server } => {
                let text =
                    format!("{} can now use <b>{}</b> for you.", escape_html(app), escape_html(server));
                ("good", "You are logged in", text, close)
            }
            Self::Failed { server, why } => {
                let text = format!("<b>{}</b>: {}.", escape_html(server), escape_html(why));
                ("bad", "The login did not work", text, "Go back to where you started it, and try again.")
            }
            Self::UnknownLogin => {
                let text = "No login is waiting for this address.".to_owned();
                ("bad", "Nothing was done", text, "If you started a login, use the page that it opened.")
            }
            Self::NotFound => ("bad", "There is nothing here", String::new(), close),
        };
        // Inserted text is not scanned again, so a name that looks like a placeholder stays a name.
        let mut html = String::with_capacity(TEMPLATE.len() + STYLE.len() + 512);
        let mut rest = TEMPLATE;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("the template is ours");
            html.push_str(before);
            html.push_str(match name {
                "title" => title,
                "style" => STYLE,
                "class" => class,
                "text" => &text,
                "next" => next,
                other => unreachable!("the template has no {other}"),
            });
            rest = after;
        }
        html.push_str(rest);
        html
    }
}

/// Escapes text for elements and attributes.
fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_stays_text() {
        let why = r#"<script>alert(1)</script><img src=x onerror="alert('2')">&lt; {style} "#;
        let page = ResultPage::Failed { server: "<b>x</b>{title}".into(), why: why.into() };
        let html = page.html();
        assert!(
            !html.contains("<script") && !html.contains("<img") && !html.contains("onerror=\""),
            "{html}"
        );
        assert!(html.contains("&lt;script&gt;") && html.contains("&amp;lt; {style}"), "{html}");
        assert!(html.contains("&lt;b&gt;x&lt;/b&gt;{title}"), "{html}");
    }

    #[test]
    fn nothing_can_be_loaded_run_or_sent() {
        for page in [
            ResultPage::LoggedIn { app: "a".into(), server: "s".into() },
            ResultPage::Failed { server: "s".into(), why: "w".into() },
            ResultPage::UnknownLogin,
            ResultPage::NotFound,
        ] {
            let response = page.response();
            let policy = response.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
            assert!(!policy.contains("unsafe") && !policy.contains("script"), "{policy}");
            assert_eq!(response.headers()["referrer-policy"], "no-referrer");
            assert_eq!(response.headers()["cache-control"], "no-store");
            assert_eq!(response.headers()["x-frame-options"], "DENY");
            let html = page.html();
            assert!(
                !html.contains("http") && !html.contains("<script") && !html.contains("style="),
                "{html}"
            );
        }
    }

    // A browser applies the style only if the hash is of exactly the text between the tags.
    #[test]
    fn the_style_is_the_one_that_the_policy_names() {
        let html = ResultPage::UnknownLogin.html();
        let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        let hash = BASE64_STANDARD.encode(digest(&SHA256, style.as_bytes()));
        assert!(CONTENT_POLICY.to_str().unwrap().contains(&format!("'sha256-{hash}'")));
    }
}
