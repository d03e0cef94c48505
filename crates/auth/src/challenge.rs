//! Parses `WWW-Authenticate` (AD-01).
//!
//! The header is hard to parse: it holds several challenges, separated by the same commas as their
//! parameters, and many servers write it by hand. Whatever is not understood is skipped, and the
//! rest counts.

use url::Url;

use crate::error::sanitize;

/// What a server's challenge says about the credentials it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The URL of the server's metadata (RFC 9728).
    pub(crate) resource_metadata: Option<Url>,
    /// The scopes that this request needs (SC-02). Never empty.
    pub(crate) scope: Option<Vec<String>>,
    /// The error code, such as `invalid_token`, `insufficient_scope` or `use_dpop_nonce`.
    pub(crate) error: Option<String>,
    /// The server's explanation, for display.
    pub(crate) error_description: Option<String>,
    /// The protection realm, for display.
    pub(crate) realm: Option<String>,
    /// Whether DPoP is among the accepted schemes (RFC 9449).
    pub(crate) dpop: bool,
}

/// The scopes that a refused request lacks, if all of them are safe to display and to paste into a
/// shell; otherwise an empty list. Returns `None` if scopes are not the reason.
// SC-03
pub fn missing_scopes(challenge: &[String]) -> Option<Vec<String>> {
    let challenge = Challenge::parse(challenge);
    if !challenge.is_insufficient_scope() {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    let fits = |scope: &String| scope.len() <= MAX_SHOWN_SCOPE_LENGTH && scope.chars().all(plain);
    let all = challenge.scope.unwrap_or_default();
    // An incomplete list would be worse than none: a login with it would not be enough.
    Some(if all.len() <= MAX_SHOWN_SCOPES && all.iter().all(fits) { all } else { Vec::new() })
}

/// How many scopes, and of which length in bytes, are shown.
const MAX_SHOWN_SCOPES: usize = 10;
const MAX_SHOWN_SCOPE_LENGTH: usize = 100;

/// One parsed challenge.
#[derive(Debug, Default, PartialEq, Eq)]
struct RawChallenge<'a> {
    scheme: &'a str,
    /// Names in lower case, with their values.
    params: Vec<(String, String)>,
}

/// How many headers are parsed, and how many bytes of each.
const MAX_HEADERS: usize = 16;
const MAX_HEADER_LENGTH: usize = 8 * 1024;
/// The longest URL, in bytes, and the number of scopes that are accepted.
const MAX_URL_LENGTH: usize = 2 * 1024;
const MAX_SCOPES: usize = 128;

impl Challenge {
    /// Parses every `WWW-Authenticate` header of a response. `Bearer` takes precedence over `DPoP`,
    /// and the first value over later ones. Other schemes are ignored.
    pub(crate) fn parse(headers: &[String]) -> Self {
        let all: Vec<RawChallenge<'_>> =
            headers.iter().take(MAX_HEADERS).flat_map(|header| split_challenges(truncate(header))).collect();
        let ours =
            |scheme: &'static str| all.iter().filter(move |raw| raw.scheme.eq_ignore_ascii_case(scheme));
        let param = |name: &str| {
            let mut params = ours("bearer").chain(ours("dpop")).flat_map(|raw| &raw.params);
            params.find(|(is, _)| is == name).map(|(_, value)| value.as_str())
        };
        let text = |name: &str| param(name).map(sanitize).filter(|text| !text.is_empty());
        Self {
            resource_metadata: param("resource_metadata").and_then(parse_url),
            scope: param("scope").map(parse_scopes).filter(|scope| !scope.is_empty()),
            error: text("error"),
            error_description: text("error_description"),
            realm: text("realm"),
            dpop: ours("dpop").next().is_some(),
        }
    }

    /// Whether the request lacked scopes, rather than a valid token (SC-03).
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Whether the request is to be repeated with the nonce of the response (AX-07).
    pub(crate) fn wants_nonce(&self) -> bool {
        self.error.as_deref() == Some("use_dpop_nonce")
    }
}

/// Parses scopes separated by spaces, dropping invalid ones (RFC 6749 §3.3) and duplicates.
pub(crate) fn parse_scopes(text: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in text.split_ascii_whitespace().filter(|scope| is_scope(scope)) {
        if scopes.len() < MAX_SCOPES && !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Whether the text is a valid scope.
pub(crate) fn is_scope(text: &str) -> bool {
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    (1..=256).contains(&text.len()) && text.bytes().all(fits)
}

fn parse_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= MAX_URL_LENGTH)?;
    (matches!(url.scheme(), "https" | "http") && url.has_host()).then_some(url)
}

fn truncate(header: &str) -> &str {
    let end = (0..=MAX_HEADER_LENGTH.min(header.len())).rev().find(|&end| header.is_char_boundary(end));
    &header[..end.unwrap_or_default()]
}

/// Splits a header into challenges. Never fails: garbage is skipped.
fn split_challenges(header: &str) -> Vec<RawChallenge<'_>> {
    let mut found: Vec<RawChallenge<'_>> = Vec::new();
    let mut rest = HeaderCursor(header);
    loop {
        rest.skip_while(|c| c == ',' || is_space(c));
        if rest.0.is_empty() {
            return found;
        }
        let name = rest.take_while(is_token);
        if name.is_empty() {
            rest.next_char();
            continue;
        }
        let mut ahead = HeaderCursor(rest.0);
        ahead.skip_while(is_space);
        if ahead.0.starts_with('=') {
            ahead.next_char();
            ahead.skip_while(is_space);
            let value = ahead.take_value();
            rest = ahead;
            let name = name.to_ascii_lowercase();
            // A repeated name is redundant or an attack; the first value counts.
            if let Some(raw) = found.last_mut().filter(|raw| raw.params.iter().all(|(is, _)| *is != name)) {
                raw.params.push((name, value));
            }
        } else {
            found.push(RawChallenge { scheme: name, params: Vec::new() });
            rest.skip_token68();
        }
    }
}

/// The unparsed rest of a header.
#[derive(Clone, Copy)]
struct HeaderCursor<'a>(&'a str);

impl<'a> HeaderCursor<'a> {
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !fits(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn skip_while(&mut self, fits: impl Fn(char) -> bool) {
        self.take_while(fits);
    }

    fn next_char(&mut self) -> Option<char> {
        let mut chars = self.0.chars();
        let next = chars.next();
        self.0 = chars.as_str();
        next
    }

    /// Takes a quoted value, or everything up to the next comma or space. An unclosed quote ends
    /// with the header.
    fn take_value(&mut self) -> String {
        if !self.0.starts_with('"') {
            return self.take_while(|c| c != ',' && !is_space(c)).to_owned();
        }
        self.next_char();
        let mut value = String::new();
        while let Some(c) = self.next_char() {
            match c {
                '"' => break,
                '\\' => value.extend(self.next_char()),
                c => value.push(c),
            }
        }
        value
    }

    /// Skips the token68 credentials of schemes such as `Negotiate`, which look like a parameter
    /// without a value.
    fn skip_token68(&mut self) {
        let mut ahead = *self;
        ahead.skip_while(is_space);
        if ahead.take_while(|c| c.is_ascii_alphanumeric() || "-._~+/".contains(c)).is_empty() {
            return;
        }
        ahead.skip_while(|c| c == '=');
        ahead.skip_while(is_space);
        if ahead.0.is_empty() || ahead.0.starts_with(',') {
            *self = ahead;
        }
    }
}

fn is_space(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests;
