//! Owns what a refusal says: reading `WWW-Authenticate`, whatever is in it (AD-01).
//!
//! The header is one of the hardest to read: several challenges in one line, separated by the same commas as their
//! parameters, and written by hand on many servers. So what is not understood is skipped, and the rest counts.

use url::Url;

use crate::error::said;

/// What a refusal says about how to be let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where the server describes itself (RFC 9728).
    pub(crate) resource_metadata: Option<Url>,
    /// What this request needs (SC-02). Never empty.
    pub(crate) scope: Option<Vec<String>>,
    /// Such as `invalid_token`, `insufficient_scope` or `use_dpop_nonce`.
    pub(crate) error: Option<String>,
    /// What the server says about it; for people.
    pub(crate) error_description: Option<String>,
    /// What the server calls the area; for people.
    pub(crate) realm: Option<String>,
    /// Whether bound tokens are asked for, alone or among others (RFC 9449).
    pub(crate) dpop: bool,
}

/// The scopes that a refusal wants beside those that we have (SC-03), as far as they are names that can be shown to
/// anybody and mean themselves in a shell. `None`: it is not for want of scopes.
pub fn wanted_scopes(challenge: &[String]) -> Option<Vec<String>> {
    let challenge = Challenge::parse(challenge);
    if !challenge.is_insufficient_scope() {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    let fits = |scope: &String| scope.len() <= SHOWN_LENGTH && scope.chars().all(plain);
    let all = challenge.scope.unwrap_or_default();
    // Some of them would be worse than none: the login would be had, and not be enough.
    Some(if all.len() <= SHOWN && all.iter().all(fits) { all } else { Vec::new() })
}

/// The most and the longest that are shown.
const SHOWN: usize = 10;
const SHOWN_LENGTH: usize = 100;

/// One challenge, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Raw<'a> {
    scheme: &'a str,
    /// Names in lower case.
    params: Vec<(String, String)>,
}

/// How many headers are looked at, and how much of each.
const HEADERS: usize = 16;
const LENGTH: usize = 8 * 1024;
/// The longest address and the most scopes that are believed.
const URL: usize = 2 * 1024;
const SCOPES: usize = 128;

impl Challenge {
    /// Reads every `WWW-Authenticate` header of an answer. What `Bearer` says is stronger than what `DPoP` says, what
    /// comes first is stronger than what comes later, and other schemes are not for us.
    pub(crate) fn parse(headers: &[String]) -> Self {
        let all: Vec<Raw<'_>> =
            headers.iter().take(HEADERS).flat_map(|header| split(bounded(header))).collect();
        let ours =
            |scheme: &'static str| all.iter().filter(move |raw| raw.scheme.eq_ignore_ascii_case(scheme));
        let param = |name: &str| {
            let mut params = ours("bearer").chain(ours("dpop")).flat_map(|raw| &raw.params);
            params.find(|(is, _)| is == name).map(|(_, value)| value.as_str())
        };
        let text = |name: &str| param(name).map(said).filter(|text| !text.is_empty());
        Self {
            resource_metadata: param("resource_metadata").and_then(address),
            scope: param("scope").map(tokens).filter(|scope| !scope.is_empty()),
            error: text("error"),
            error_description: text("error_description"),
            realm: text("realm"),
            dpop: ours("dpop").next().is_some(),
        }
    }

    /// Whether the request was refused for want of scopes, rather than for want of a good token (SC-03).
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Whether the request is to go again with the nonce that came with the answer (AX-07).
    pub(crate) fn wants_nonce(&self) -> bool {
        self.error.as_deref() == Some("use_dpop_nonce")
    }
}

/// The scopes in a list that is separated by spaces: those that are such (RFC 6749 §3.3), each once.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in text.split_ascii_whitespace().filter(|scope| is_scope(scope)) {
        if scopes.len() < SCOPES && !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Whether it can be asked for.
pub(crate) fn is_scope(text: &str) -> bool {
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    (1..=256).contains(&text.len()) && text.bytes().all(fits)
}

fn address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= URL)?;
    (matches!(url.scheme(), "https" | "http") && url.has_host()).then_some(url)
}

fn bounded(header: &str) -> &str {
    let end = (0..=LENGTH.min(header.len())).rev().find(|&end| header.is_char_boundary(end));
    &header[..end.unwrap_or_default()]
}

/// Takes a header apart. Never fails: junk is stepped over.
fn split(header: &str) -> Vec<Raw<'_>> {
    let mut found: Vec<Raw<'_>> = Vec::new();
    let mut rest = Rest(header);
    loop {
        rest.skip(|c| c == ',' || is_space(c));
        if rest.0.is_empty() {
            return found;
        }
        let name = rest.take(is_token);
        if name.is_empty() {
            rest.step();
            continue;
        }
        let mut ahead = Rest(rest.0);
        ahead.skip(is_space);
        if ahead.0.starts_with('=') {
            ahead.step();
            ahead.skip(is_space);
            let value = ahead.value();
            rest = ahead;
            let name = name.to_ascii_lowercase();
            // A name that comes twice says the same as once, or somebody is playing games.
            if let Some(raw) = found.last_mut().filter(|raw| raw.params.iter().all(|(is, _)| *is != name)) {
                raw.params.push((name, value));
            }
        } else {
            found.push(Raw { scheme: name, params: Vec::new() });
            rest.skip_token68();
        }
    }
}

/// What is left of a header.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !fits(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn skip(&mut self, fits: impl Fn(char) -> bool) {
        self.take(fits);
    }

    fn step(&mut self) -> Option<char> {
        let mut chars = self.0.chars();
        let next = chars.next();
        self.0 = chars.as_str();
        next
    }

    /// A quoted value, or what comes before the next comma or space. An open quote ends with the header.
    fn value(&mut self) -> String {
        if !self.0.starts_with('"') {
            return self.take(|c| c != ',' && !is_space(c)).to_owned();
        }
        self.step();
        let mut value = String::new();
        while let Some(c) = self.step() {
            match c {
                '"' => break,
                '\\' => value.extend(self.step()),
                c => value.push(c),
            }
        }
        value
    }

    /// Steps over the credentials of schemes such as `Negotiate`, which look like a parameter without a value.
    fn skip_token68(&mut self) {
        let mut ahead = *self;
        ahead.skip(is_space);
        if ahead.take(|c| c.is_ascii_alphanumeric() || "-._~+/".contains(c)).is_empty() {
            return;
        }
        ahead.skip(|c| c == '=');
        ahead.skip(is_space);
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
