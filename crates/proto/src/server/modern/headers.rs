//! [`check_headers`]: whether the mirrored headers of a request repeat its body.
//!
//! A proxy may have routed or admitted the request by its headers alone, so each of them must say
//! what the body says, and none may be left out.

use std::fmt;

use super::Refusal;
use super::request::ModernRequest;
use crate::wire::mirror::{self, HeaderAnnotations};
use crate::wire::{Json, code, meta, method};

/// The parts of a request that headers repeat.
#[derive(Clone, Copy, Debug)]
pub struct MirroredRequest<'a> {
    /// The `_meta` of the request.
    pub request: &'a ModernRequest,
    /// Its method.
    pub method: &'a str,
    /// Its params.
    pub params: Option<&'a Json>,
    /// The annotations of the tool that it calls, as the host knows the tool. `None` if the tool
    /// or its schema is not known, or if it is no call: then headers of arguments are ignored.
    pub annotations: Option<&'a HeaderAnnotations>,
}

/// A header that does not repeat the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMismatch {
    /// The name of the header.
    pub header: Box<str>,
    /// What is wrong with it.
    pub problem: HeaderProblem,
}

/// What is wrong with a mirrored header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProblem {
    /// The body has a value, and there is no header.
    Missing,
    /// It occurs twice, so that two readers may see two values.
    Repeated,
    /// Its value has a byte that it must not have, or invalid Base64.
    Malformed,
    /// It has another value than the body.
    Different,
    /// There is a header, and the body has no value.
    Unexpected,
}

/// Checks the headers of a request over HTTP: names and values as received, in any order. Headers
/// that repeat nothing of this request are ignored.
///
/// This is for requests. The protocol does not say which headers a notification has.
// GW-03
pub fn check_headers<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    mirrored: &MirroredRequest<'_>,
) -> Result<(), HeaderMismatch> {
    let headers = McpHeaders(headers.into_iter().filter(|(name, _)| is_mcp_header(name)).collect());
    let MirroredRequest { request, method, params, annotations } = mirrored;
    headers.expect_plain(mirror::VERSION_HEADER, request.revision.as_str())?;
    headers.expect_plain(mirror::METHOD_HEADER, method)?;
    if let Some(member) = mirror::name_param(method) {
        // Only a string is a name. Whatever else stands there is refused later, as invalid params.
        let name = params.and_then(|params| params.member(member));
        let name = name.filter(|name| name.decode::<String>().is_ok());
        headers.expect_encoded(mirror::NAME_HEADER, name.as_ref())?;
    }
    if let Some(annotations) = annotations.filter(|_| *method == method::TOOLS_CALL) {
        let arguments = params.and_then(|params| params.member("arguments"));
        for (header, value) in annotations.values(arguments.as_ref()) {
            headers.expect_encoded(header, value.as_ref())?;
        }
    }
    Ok(())
}

/// Checks the header with the revision against the body, if both have one. This comes before the
/// revision is looked at: a request that says two things has none.
// GW-03
pub fn check_version_header<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    params: Option<&Json>,
) -> Result<(), HeaderMismatch> {
    let headers = McpHeaders(headers.into_iter().filter(|(name, _)| is_mcp_header(name)).collect());
    let version = params.and_then(|params| params.member("_meta")?.member(meta::PROTOCOL_VERSION));
    let version = version.and_then(|version| version.decode::<String>().ok());
    match (headers.find(mirror::VERSION_HEADER)?, version) {
        (Some(_), Some(version)) => headers.expect_plain(mirror::VERSION_HEADER, &version),
        _ => Ok(()),
    }
}

impl HeaderMismatch {
    /// The refusal of the request. It names the header and no value.
    pub fn refusal(&self) -> Refusal {
        Refusal::bad_request(code::HEADER_MISMATCH, self.to_string())
    }
}

impl fmt::Display for HeaderMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header {}: {}", self.header, self.problem)
    }
}

impl std::error::Error for HeaderMismatch {}

impl fmt::Display for HeaderProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Repeated => "present more than once",
            Self::Malformed => "malformed",
            Self::Different => "does not match the body",
            Self::Unexpected => "the body has no such value",
        })
    }
}

impl std::error::Error for HeaderProblem {}

/// The headers whose names begin with `Mcp-`.
struct McpHeaders<'h>(Vec<(&'h str, &'h [u8])>);

impl<'h> McpHeaders<'h> {
    /// Checks a header that is never encoded, and always expected.
    fn expect_plain(&self, name: &str, expected: &str) -> Result<(), HeaderMismatch> {
        let problem = |problem| HeaderMismatch { header: name.into(), problem };
        let value = self.find(name)?.ok_or_else(|| problem(HeaderProblem::Missing))?;
        let value = mirror::plain_value(value).map_err(|_| problem(HeaderProblem::Malformed))?;
        if value == expected { Ok(()) } else { Err(problem(HeaderProblem::Different)) }
    }

    /// Checks a header that repeats a value of the body, if there is one.
    fn expect_encoded(&self, name: &str, expected: Option<&Json>) -> Result<(), HeaderMismatch> {
        let problem = |problem| HeaderMismatch { header: name.into(), problem };
        match (self.find(name)?, expected) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(problem(HeaderProblem::Missing)),
            (Some(_), None) => Err(problem(HeaderProblem::Unexpected)),
            (Some(header), Some(value)) => {
                let header = mirror::decode_value(header).map_err(|_| problem(HeaderProblem::Malformed))?;
                let is_same = mirror::repeats_value(&header, value);
                if is_same { Ok(()) } else { Err(problem(HeaderProblem::Different)) }
            }
        }
    }

    fn find(&self, name: &str) -> Result<Option<&'h [u8]>, HeaderMismatch> {
        let mut found = self.0.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| *value);
        if found.next().is_some() {
            return Err(HeaderMismatch { header: name.into(), problem: HeaderProblem::Repeated });
        }
        Ok(first)
    }
}

fn is_mcp_header(name: &str) -> bool {
    name.as_bytes().get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"mcp-"))
}

#[cfg(test)]
mod tests;
