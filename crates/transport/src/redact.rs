//! Removes the secrets of one server from what that server sends. Servers repeat what they are
//! sent, in errors, in results and in logs, and all of that is shown to people, stored and passed
//! to models.

use std::borrow::Cow;
use std::cmp::Reverse;
#[cfg(feature = "stdio")]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
#[cfg(feature = "stdio")]
use std::path::Path;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
#[cfg(feature = "stdio")]
use bowline_config::Secret;
use bytes::Bytes;
use memchr::memmem::{self, Finder};
use memchr::{memchr, memchr2};
use serde::de::IgnoredAny;
use url::form_urlencoded::byte_serialize;

use crate::percent::{decode_first_byte, percent_decode};

/// Finds the secrets of one server in every form in which they may come back. Cheap on text without
/// secrets: mostly two searches per secret. `Debug` prints only their number.
#[derive(Default)]
pub struct Redactor {
    /// Strings of which at least one occurs in any text that contains a secret: fewer than there
    /// are forms.
    anchors: Vec<Finder<'static>>,
    /// All forms of all secrets, the longest first, so that no part of one is left.
    forms: Vec<Finder<'static>>,
    /// Secrets that a URL cannot contain literally. Which of their characters are escaped, and in
    /// which case, is up to the writer.
    escapable: Vec<Finder<'static>>,
    /// Whether a secret has characters beyond Latin-1, which JSON may contain as `\u` escapes.
    has_beyond_latin1: bool,
}

/// The syntax of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The content of a JSON string, between its quotes.
    JsonString,
    Plain,
}

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";

/// Shortest secret, in bytes: a shorter value may be an ordinary word.
const MIN_SECRET: usize = 8;
/// Longest secret that is searched for, in bytes.
const MAX_SECRET: usize = 16 * 1024;
/// How many secrets are searched for.
const MAX_SECRETS: usize = 64;
/// How many lines of a multi-line secret, such as a PEM key, are searched for individually: logs
/// arrive line by line.
const MAX_SECRET_LINES: usize = 128;
/// Shortest beginning of a secret that is removed, in bytes: less reveals nothing.
#[cfg(any(feature = "http", feature = "stdio"))]
const MIN_PARTIAL_SECRET: usize = 4;

impl Redactor {
    /// Searches for these secrets, and for their forms in base64, in a URL and in JSON. If there
    /// are too many, the first ones count.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let fits = |secret: &S| (MIN_SECRET..=MAX_SECRET).contains(&secret.as_ref().len());
        let (mut forms, mut anchors) = (BTreeSet::new(), BTreeSet::new());
        let secrets: Vec<S> = secrets.into_iter().filter(fits).take(MAX_SECRETS).collect();
        let whole = secrets.iter().map(AsRef::as_ref);
        let lines = whole.clone().filter(|secret| secret.contains('\n')).flat_map(|secret| {
            let long = secret.lines().map(str::trim).filter(|line| line.len() >= MIN_SECRET);
            long.take(MAX_SECRET_LINES)
        });
        let all: BTreeSet<&str> = whole.chain(lines).collect();
        for secret in &all {
            // As in a form (`+`), and as in a path (`%20`).
            let encoded: String = byte_serialize(secret.as_bytes()).collect();
            let plain = [(*secret).to_owned(), escape_json(secret), encoded.replace('+', "%20"), encoded];
            anchors.extend(plain.iter().cloned());
            forms.extend(plain);
            let base64 = [BASE64_STANDARD_NO_PAD.encode(secret), BASE64_URL_SAFE_NO_PAD.encode(secret)];
            anchors.extend(
                alphabet_independent_run(&base64[0]).map_or_else(|| base64.to_vec(), |run| vec![run]),
            );
            forms.extend(base64);
        }
        let finder = |text: &String| Finder::new(text.as_bytes()).into_owned();
        let mut forms: Vec<String> = forms.into_iter().collect();
        forms.sort_by_key(|form| Reverse(form.len()));
        Self {
            anchors: anchors.iter().map(finder).collect(),
            forms: forms.iter().map(finder).collect(),
            escapable: all
                .iter()
                .filter(|secret| is_escapable(secret))
                .map(|secret| Finder::new(secret.as_bytes()).into_owned())
                .collect(),
            has_beyond_latin1: all.iter().any(|secret| secret.contains(|c| c > '\u{ff}')),
        }
    }

    /// Returns the secret part of a header value: of `Bearer token`, the token.
    pub fn secret_in_header(value: &str) -> &str {
        value.split_once(' ').map_or(value, |(_, token)| token.trim_start())
    }

    /// A redactor for the environment variables whose names say that they are secret. A path is not
    /// a secret: it only says where one is.
    #[cfg(feature = "stdio")]
    pub(crate) fn from_environment(environment: &BTreeMap<String, Secret>) -> Self {
        let is_path = |value: &str| {
            // A base64 key may begin with a slash too, but contains no dot.
            let is_absolute = value.starts_with('/') && (value.contains('.') || Path::new(value).exists());
            is_absolute
                || ["~/", "./", "../"].iter().any(|start| value.starts_with(start))
                || value.contains(":\\")
        };
        let secret = environment.iter().filter(|(name, _)| is_secret_name(name));
        Self::new(secret.map(|(_, value)| value.expose()).filter(|value| !is_path(value)))
    }

    /// Whether there are no secrets to search for.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Removes the secrets from JSON. It stays JSON: only the content of strings is replaced. Input
    /// that is not JSON is treated as text.
    #[must_use]
    pub fn redact_json(&self, message: Bytes) -> Bytes {
        if self.is_empty() || !(self.contains_secret(&message) || self.has_odd_escape(&message)) {
            return message;
        }
        let mut shown = Vec::with_capacity(message.len());
        let mut rest = &message[..];
        while let Some(open) = memchr(b'"', rest) {
            let (before, string) = rest.split_at(open + 1);
            let (inside, after) = string.split_at(find_string_end(string));
            shown.extend_from_slice(before);
            shown.extend_from_slice(&self.redact_json_string(inside));
            rest = after;
            if let Some(after) = after.strip_prefix(b"\"") {
                shown.push(b'"');
                rest = after;
            }
        }
        shown.extend_from_slice(rest);
        // A number may look like a secret and is not one; but text that is not JSON is redacted as
        // a whole.
        if self.contains_secret(&shown) && serde_json::from_slice::<IgnoredAny>(&shown).is_err() {
            shown = self.replace_all(&shown, Kind::Plain).into_owned();
        }
        shown.into()
    }

    /// Redacts the content of a JSON string. A string with unnecessary escapes is compared in its
    /// decoded form.
    fn redact_json_string<'a>(&self, inside: &'a [u8]) -> Cow<'a, [u8]> {
        if self.has_odd_escape(inside)
            && let Ok(said) = serde_json::from_slice::<String>(&[b"\"", inside, b"\""].concat())
            && self.contains_secret(said.as_bytes())
        {
            let shown = serde_json::to_string(&self.redact_text(&said)).expect("a text is JSON");
            return Cow::Owned(shown.as_bytes()[1..shown.len() - 1].to_vec());
        }
        self.replace_all(inside, Kind::JsonString)
    }

    /// Removes the secrets from text, wherever they occur.
    #[must_use]
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.contains_secret(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(String::from_utf8_lossy(&self.replace_all(text.as_bytes(), Kind::Plain)).into_owned())
    }

    /// Removes the secrets from a truncated text, and a beginning of a secret at its end.
    #[cfg(any(feature = "http", feature = "stdio"))]
    #[must_use]
    pub(crate) fn redact_truncated<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let shown = self.redact_text(text);
        let half =
            self.forms.iter().filter_map(|form| partial_secret_len(shown.as_bytes(), form.needle())).max();
        match half {
            Some(length) => Cow::Owned(format!("{}{REDACTED}", &shown[..shown.len() - length])),
            None => shown,
        }
    }

    fn contains_secret(&self, text: &[u8]) -> bool {
        self.anchors.iter().any(|anchor| anchor.find(text).is_some()) || self.contains_escaped_secret(text)
    }

    /// Whether a text contains a secret with percent escapes of any kind.
    fn contains_escaped_secret(&self, text: &[u8]) -> bool {
        if self.escapable.is_empty() || memchr(b'%', text).is_none() {
            return false;
        }
        let said = percent_decode(text);
        self.escapable.iter().any(|secret| secret.find(&said).is_some())
    }

    /// Whether a text has an unnecessary escape: a slash, or a `\u` escape that may belong to a
    /// secret.
    fn has_odd_escape(&self, text: &[u8]) -> bool {
        let number: &[u8] = if self.has_beyond_latin1 { b"\\u" } else { b"\\u00" };
        memmem::find(text, number).is_some() || memmem::find(text, b"\\/").is_some()
    }

    fn replace_all<'a>(&self, text: &'a [u8], kind: Kind) -> Cow<'a, [u8]> {
        let mut text = Cow::Borrowed(text);
        for form in &self.forms {
            if let Some(without) = replace_form(form, &text, kind) {
                text = Cow::Owned(without);
            }
        }
        if self.contains_escaped_secret(&text) {
            for secret in &self.escapable {
                if let Some(without) = replace_escaped(secret, &text, kind) {
                    text = Cow::Owned(without);
                }
            }
        }
        text
    }
}

/// Replaces a secret that has percent escapes in it; `None` if there is none.
fn replace_escaped(secret: &Finder<'_>, text: &[u8], kind: Kind) -> Option<Vec<u8>> {
    let (mut said, mut rest) = (0, text);
    let place = |at: usize| {
        while said < at {
            rest = decode_first_byte(rest).map_or(&[], |(_, after)| after);
            said += 1;
        }
        text.len() - rest.len()
    };
    replace_decoded(secret, (text, kind), &percent_decode(text), place)
}

/// Whether a secret has a character that some rule escapes in a URL.
fn is_escapable(secret: &str) -> bool {
    !secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// How many bytes at the end of a text are the beginning of a form, if they are enough to reveal
/// something.
#[cfg(any(feature = "http", feature = "stdio"))]
fn partial_secret_len(text: &[u8], form: &[u8]) -> Option<usize> {
    (MIN_PARTIAL_SECRET..form.len().min(text.len() + 1)).rev().find(|length| text.ends_with(&form[..*length]))
}

/// Whether an environment variable holds a secret, judged by its name.
#[cfg(feature = "stdio")]
fn is_secret_name(name: &str) -> bool {
    const WITHIN: [&str; 11] = [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "API_KEY",
        "APIKEY",
        "ACCESS_KEY",
        "PRIVATE_KEY",
        "CREDENTIAL",
        "COOKIE",
    ];
    // As separate words: AUTHOR is not a secret, and neither is most of a URL.
    const WORDS: [&str; 14] = [
        "AUTH",
        "AUTHORIZATION",
        "BEARER",
        "CREDS",
        "DSN",
        "JWT",
        "KEY",
        "OTP",
        "PASS",
        "PASSCODE",
        "PAT",
        "PIN",
        "PW",
        "PWD",
    ];
    // These usually contain a password, between a user and a host.
    const ENDS: [&str; 8] = [
        "CONNECTION_STRING",
        "CONNECTIONSTRING",
        "DATABASE_URL",
        "DATABASE_URI",
        "REDIS_URL",
        "MONGODB_URI",
        "AMQP_URL",
        "WEBHOOK_URL",
    ];
    let name = name.to_ascii_uppercase();
    // The current and the previous folder of the shell.
    if name == "PWD" || name == "OLDPWD" {
        return false;
    }
    WITHIN.iter().any(|word| name.contains(word))
        || ENDS.iter().any(|end| name.ends_with(end))
        || name.split(['_', '-', '.']).any(|word| WORDS.contains(&word))
}

/// Replaces all occurrences of a form; `None` if there are none.
fn replace_form(form: &Finder<'_>, text: &[u8], kind: Kind) -> Option<Vec<u8>> {
    replace_decoded(form, (text, kind), text, |at| at)
}

/// Replaces all occurrences of a form in the decoded text `said`. `place` maps an offset in `said`
/// to an offset in `text`; it is called with increasing offsets.
fn replace_decoded(
    form: &Finder<'_>,
    (text, kind): (&[u8], Kind),
    said: &[u8],
    mut place: impl FnMut(usize) -> usize,
) -> Option<Vec<u8>> {
    let mut shown: Option<Vec<u8>> = None;
    let (mut from, mut look) = (0, 0);
    while let Some(found) = form.find(&said[look..]) {
        let at = look + found;
        let start = place(at);
        if kind == Kind::JsonString && is_in_escape(text, start) {
            look = at + 1;
            continue;
        }
        let shown = shown.get_or_insert_with(|| Vec::with_capacity(text.len()));
        shown.extend_from_slice(&text[from..start]);
        shown.extend_from_slice(REDACTED.as_bytes());
        look = at + form.needle().len();
        from = place(look);
    }
    let mut shown = shown?;
    shown.extend_from_slice(&text[from..]);
    Some(shown)
}

/// Whether an offset is in the middle of an escape. A match that begins there is a different text,
/// and half an escape is not JSON.
fn is_in_escape(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Finds the end of a string, from after its opening quote: at the closing quote, or at the end of
/// the text.
fn find_string_end(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if text[at + found] == b'"' {
            return at + found;
        }
        at += found + 2;
    }
    text.len()
}

/// The longest part of a base64 text that is the same in both alphabets, if it is long enough to be
/// unique.
fn alphabet_independent_run(base64: &str) -> Option<String> {
    let run = base64.split(['+', '/']).max_by_key(|run| run.len())?;
    (run.len() >= MIN_SECRET).then(|| run[..run.len().min(MAX_ANCHOR)].to_owned())
}

/// Longest anchor, in bytes: a longer one gains nothing.
const MAX_ANCHOR: usize = 32;

/// Escapes a text for a JSON string.
fn escape_json(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => written.extend(['\\', c]),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            c => written.push(c),
        }
    }
    written
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} forms)", self.forms.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(secrets: &[&str], text: &str) -> String {
        let shown = Redactor::new(secrets).redact_json(Bytes::copy_from_slice(text.as_bytes()));
        String::from_utf8(shown.to_vec()).unwrap()
    }

    #[test]
    fn a_secret_is_replaced_in_every_form() {
        let secret = "s3cr+t/\"x\\ y";
        for form in
            ["s3cr+t/\\\"x\\\\ y", "s3cr%2Bt%2F%22x%5C%20y", "s3cr%2Bt%2F%22x%5C+y", "czNjcit0LyJ4XCB5"]
        {
            let text = format!("{{\"error\":{{\"message\":\"got {form} twice: {form}\"}}}}");
            let expected = "{\"error\":{\"message\":\"got [redacted] twice: [redacted]\"}}";
            assert_eq!(json(&[secret], &text), expected, "{form}");
        }
        assert_eq!(Redactor::new([secret]).redact_text("got s3cr+t/\"x\\ y"), "got [redacted]");
    }

    #[test]
    fn escapes_hide_nothing() {
        let spelled = r"\u0073\u006b\u002f\u006c\u0069\u0076\u0065\u0030\u0031\u0032\u0033";
        for form in [spelled, "\\u0073k/live0123", "sk\\/live0123"] {
            let text = format!(r#"{{"a":"got {form} \u003cb>","b":"\u003c c\/d"}}"#);
            let expected = r#"{"a":"got [redacted] <b>","b":"\u003c c\/d"}"#;
            assert_eq!(json(&["sk/live0123"], &text), expected, "{form}");
        }
    }

    #[test]
    fn characters_beyond_latin_are_found_by_their_numbers() {
        let shown = json(&["pass\u{20ac}word\u{1f511}"], r#"{"a":"is pass\u20acword\ud83d\udd11."}"#);
        assert_eq!(shown, r#"{"a":"is [redacted]."}"#);
    }

    #[test]
    fn percent_escapes_are_found_in_every_spelling() {
        let redactor = Redactor::new(["ab/cd+ef=~gh"]);
        for written in [
            "ab/cd%2Bef%3D~gh",
            "ab%2fcd%2bef%3d~gh",
            "ab%2Fcd%2Bef%3D%7Egh",
            "%61b/cd+ef=~gh",
            "ab%2Fcd+ef=~gh",
        ] {
            assert_eq!(
                redactor.redact_text(&format!("at ?k={written}&x")),
                "at ?k=[redacted]&x",
                "{written}"
            );
            let shown = redactor.redact_json(Bytes::from(format!(r#"{{"url":"h/{written}"}}"#)));
            assert_eq!(shown, Bytes::from_static(br#"{"url":"h/[redacted]"}"#), "{written}");
        }
        let twice = redactor.redact_text("%41 ab%2fcd+ef=~gh, ab%2Fcd%2bef=~gh%");
        assert_eq!(twice, "%41 [redacted], [redacted]%");
        assert_eq!(redactor.redact_text("100% of 5%2"), "100% of 5%2");
    }

    #[test]
    fn the_beginning_of_a_secret_at_the_end_of_a_cut_text_is_found() {
        let redactor = Redactor::new(["hunter2hunter2"]);
        assert_eq!(redactor.redact_truncated("at /hunter2hunt"), "at /[redacted]");
        assert_eq!(redactor.redact_truncated("at /hunt"), "at /[redacted]");
        // Too short to reveal anything.
        assert_eq!(redactor.redact_truncated("at /hun"), "at /hun");
        assert_eq!(redactor.redact_truncated("hunter2hunter2 at /x"), "[redacted] at /x");
    }

    #[test]
    fn a_secret_of_several_lines_is_found_line_by_line() {
        let key = "-----BEGIN KEY-----\nMC4CAQAwBQYDK2Vw\nab\n-----END KEY-----\n";
        let redactor = Redactor::new([key]);
        assert_eq!(redactor.redact_text("read MC4CAQAwBQYDK2Vw"), "read [redacted]");
        assert_eq!(redactor.redact_text("ab"), "ab");
        assert_eq!(Redactor::new(["one-line-token\n"]).redact_text("is one-line-token."), "is [redacted].");
    }

    #[test]
    fn a_path_that_is_there_is_no_secret_and_a_key_that_looks_like_one_is() {
        let environment = |value: &str| BTreeMap::from([("ACCESS_KEY".to_owned(), Secret::new(value))]);
        assert!(
            Redactor::from_environment(&environment("/proc/self/status")).is_empty()
                || !cfg!(target_os = "linux")
        );
        assert!(Redactor::from_environment(&environment("~/keys/service.json")).is_empty());
        let key = "/JalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        assert_eq!(Redactor::from_environment(&environment(key)).redact_text(key), REDACTED);
    }

    #[test]
    fn what_is_no_json_is_text() {
        assert_eq!(json(&["hunter2hunter2"], "{Bearer hunter2hunter2}"), "{Bearer [redacted]}");
    }

    // Both alphabets, where they differ everywhere and where they hardly differ.
    #[test]
    fn base64_is_found_in_both_alphabets() {
        for secret in ["\u{3ff}\u{3fe}\u{fbf}\u{fbe}\u{3ff}~~~???", "a-token-of-some-length-with-?>-in-it"] {
            let redactor = Redactor::new([secret]);
            for form in [BASE64_STANDARD_NO_PAD.encode(secret), BASE64_URL_SAFE_NO_PAD.encode(secret)] {
                assert_eq!(redactor.redact_text(&form), REDACTED, "{form}");
            }
        }
        let redactor = Redactor::new(["test_access_token_0123456789abcdef"]);
        assert_eq!(redactor.anchors.len(), 2, "two searches for a usual token");
    }

    #[test]
    fn what_stands_in_no_string_is_left() {
        let text = r#"{"id":123456789,"n":[123456789012],"s":"123456789","é":"\"123456789\\"}"#;
        let expected = r#"{"id":123456789,"n":[123456789012],"s":"[redacted]","é":"\"[redacted]\\"}"#;
        assert_eq!(json(&["123456789"], text), expected);
        // A match that begins inside an escape does not count.
        assert_eq!(json(&["nabcdefgh"], r#""\nabcdefgh nabcdefgh""#), r#""\nabcdefgh [redacted]""#);
        assert_eq!(json(&["nnnnnnnn"], r#""\nnnnnnnnn""#), r#""\n[redacted]""#);
        assert_eq!(Redactor::new(["hunter2hunter2"]).redact_text(r"C:\hunter2hunter2"), r"C:\[redacted]");
    }

    #[test]
    fn the_longer_secret_is_replaced_whole() {
        assert_eq!(json(&["abcdefgh", "abcdefghijkl"], "\"abcdefghijkl\""), "\"[redacted]\"");
    }

    #[test]
    fn short_ones_and_too_many_are_not_looked_for() {
        assert!(Redactor::new(["short", ""]).is_empty());
        let many: Vec<String> = (0..100).map(|n| format!("secret-number-{n:03}")).collect();
        let redactor = Redactor::new(&many);
        assert_eq!(
            redactor.redact_text("secret-number-000 secret-number-099"),
            "[redacted] secret-number-099"
        );
        assert!(!format!("{redactor:?}").contains("secret"));
    }

    #[test]
    fn variables_are_secret_by_their_names() {
        let environment = [
            ("GITHUB_TOKEN", "ghp_0123456789"),
            ("openai_api_key", "sk-0123456789"),
            ("ROOT", "/home/ada/documents"),
            ("LOG_LEVEL", "verbose-logging"),
            ("GOOGLE_CREDENTIALS", "/home/ada/key.json"),
            ("DATABASE_URL", "postgres://ada:hunter2@db/ships"),
            ("SESSION_COOKIE", "sid=0123456789"),
            ("AUTH", "basic-0123456789"),
            ("AZURE_CONNECTION_STRING", "AccountKey=0123456789"),
            ("SENTRY_DSN", "https://0123456789@sentry"),
            ("PAT", "pat-0123456789"),
            ("AUTHOR", "Ada Lovelace"),
            ("COMPATIBLE", "since-2015"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), Secret::new(value))).into();
        let said = "ghp_0123456789 sk-0123456789 /home/ada/documents verbose-logging /home/ada/key.json";
        let shown = "[redacted] [redacted] /home/ada/documents verbose-logging /home/ada/key.json";
        let redactor = Redactor::from_environment(&environment);
        assert_eq!(redactor.redact_text(said), shown);
        let said = "postgres://ada:hunter2@db/ships, sid=0123456789, basic-0123456789, AccountKey=0123456789, \
                    https://0123456789@sentry, pat-0123456789, Ada Lovelace, since-2015";
        let shown = "[redacted], [redacted], [redacted], [redacted], [redacted], [redacted], Ada Lovelace, since-2015";
        assert_eq!(redactor.redact_text(said), shown);
    }

    #[test]
    fn text_without_a_secret_is_not_copied() {
        let message = Bytes::from_static(b"{\"jsonrpc\":\"2.0\"}");
        let shown = Redactor::new(["hunter2hunter2"]).redact_json(message.clone());
        assert_eq!(shown.as_ptr(), message.as_ptr());
    }

    proptest! {
        // Whatever a server sends and whatever the secret is: the result is JSON, and the secret is
        // gone.
        #[test]
        fn json_stays_json(secret in "[a-z0-9\\\\\"/ \n]{8,12}", before in ".{0,8}", after in ".{0,8}", n: u64) {
            let said = serde_json::json!({ "a": format!("{before}{secret}{after}"), "n": n, "b": [before, null] });
            let shown = Redactor::new([&secret]).redact_json(Bytes::from(said.to_string()));
            let read: serde_json::Value = serde_json::from_slice(&shown).unwrap();
            prop_assert_eq!(&read["n"], &said["n"]);
            prop_assert!(!read["a"].as_str().unwrap().contains(&secret));
        }
    }
}
