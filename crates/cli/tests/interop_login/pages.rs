//! The page that the browser shows at our redirect URI: on desktop and phone, in light and dark
//! mode, and with hostile input.

use serde_json::json;
use url::Url;

use crate::browser::Browser;
use crate::chromium::{Chromium, Page};
use crate::pty::Person;
use crate::site::{LoginSite, opened_url};

/// Checks that the page is readable without zooming or scrolling, and that its style passes its own
/// content security policy.
fn assert_readable(page: &Page) {
    for look in [&page.looks.light, &page.looks.dark] {
        assert!(!look.overflows && look.text_size >= 16.0, "{look:?}");
        assert!(contrast(&look.ink, &look.paper) >= 7.0, "{look:?}");
        assert!(contrast(&look.mark, &look.paper) >= 4.5, "{look:?}");
    }
    assert_ne!(page.looks.light.paper, page.looks.dark.paper);
    assert!(page.dialogs.is_empty(), "{page:?}");
    assert!(page.loaded.is_empty(), "{page:?}");
    // The console complains if the policy blocks anything. The other complaints are about
    // third-party pages, and about the status of an error page.
    let bad = page.said.iter().find(|line| !line.starts_with("Failed to load resource: "));
    assert_eq!(bad, None);
    let harmless = ["main", "svg", "circle", "path", "h1", "p", "b"];
    let strange = page.elements.iter().find(|name| !harmless.contains(&name.as_str()));
    assert_eq!(strange, None, "{page:?}");
}

#[test]
fn a_login_on_a_phone() {
    let (site, mut chromium) = (LoginSite::new(), Chromium::start());
    let page = site.logs_in(&mut chromium, "docs", json!({ "look": "phone", "shot": "phone" }));
    assert_readable(&page);
    assert_eq!(page.looks.light.width, 390);
}

#[test]
fn a_denied_login_shows_its_page() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    for look in ["desktop", "phone"] {
        let how = json!({ "cancel": "login", "look": look, "shot": format!("denied-{look}") });
        let (end, page) = site.attended(&mut chromium, &["login", "docs"], how);
        assert_eq!(end.code, 5, "{}{}", end.stdout, end.screen);
        assert_eq!((page.status, &*page.title), (Some(400), "The login did not work"));
        assert_readable(&page);
        assert_eq!(site.json(&["auth", "--json"])["logins"], json!([]));
        assert_eq!(site.record().grants("authorization_code").count(), 0);
    }
}

/// A hostile authorization server, and an uninvited request to our redirect URI.
#[test]
fn hostile_text_stays_text() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let browser = Browser::new(&site.context);
    let mut command = site.bowline(&["login", "docs"]);
    command.env("BROWSER", &browser.program);
    let person = Person::sits_at(command);
    let authorize = Url::parse(&opened_url(&browser)).expect("an address");
    let field = |name: &str| {
        authorize.query_pairs().find(|(key, _)| key == name).expect("it is there").1.into_owned()
    };
    let back = |state: &str| {
        let mut url = Url::parse(&field("redirect_uri")).expect("an address");
        let description =
            format!("<script>alert(1)</script><img src=x onerror=alert(2)>{}", "W".repeat(5000));
        url.query_pairs_mut()
            .append_pair("error", "access_denied")
            .append_pair("error_description", &description)
            .append_pair("state", state)
            .append_pair("iss", &site.issuer);
        url
    };
    // AF-03.
    let uninvited = back("another");
    let page = chromium.visit(uninvited.as_str(), json!({ "look": "phone", "shot": "uninvited" }));
    assert_eq!((page.status, &*page.title), (Some(400), "Nothing was done"));
    assert_readable(&page);
    let elsewhere = uninvited.as_str().replace("/callback", "/favicon.ico");
    assert_eq!(chromium.visit(&elsewhere, json!({})).status, Some(404));

    // None of this affects the login.
    let hostile = back(&field("state"));
    let page = chromium.visit(hostile.as_str(), json!({ "look": "phone", "shot": "hostile" }));
    assert_eq!((page.status, &*page.title), (Some(400), "The login did not work"));
    assert!(page.text.contains("<script>alert(1)</script>"), "{page:?}");
    assert_readable(&page);
    let end = person.leaves();
    assert_eq!(end.code, 5, "{}{}", end.stdout, end.screen);
    assert_eq!(site.record().requests_to("token").count(), 0);
}

/// Returns the contrast ratio of two colors by WCAG 2.
fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

fn luminance(color: &str) -> f64 {
    let numbers = color.trim_start_matches("rgb(").trim_end_matches(')').split(',');
    let linear = |number: &str| {
        let value = number.trim().parse::<f64>().unwrap_or_else(|_| panic!("not a color: {color}")) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    numbers.zip([0.2126, 0.7152, 0.0722]).map(|(number, weight)| weight * linear(number)).sum()
}
