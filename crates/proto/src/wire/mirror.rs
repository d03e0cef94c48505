//! Mirrored headers of the modern era: which parts of a request are repeated in HTTP headers, so
//! that proxies can route without reading bodies, how the values are encoded, and whether a header
//! repeats a value.
// HM-03 to HM-09, GW-03

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use super::{Json, method, scan};

/// The parameter that the header `Mcp-Name` repeats, for methods that have one.
// HM-03, TN-07
pub fn name_param(method: &str) -> Option<&'static str> {
    match method {
        method::TOOLS_CALL | method::PROMPTS_GET => Some("name"),
        method::RESOURCES_READ => Some("uri"),
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => Some("taskId"),
        _ => None,
    }
}

/// The header that repeats the revision of a request.
pub const VERSION_HEADER: &str = "MCP-Protocol-Version";
/// The header that repeats the method of a request.
pub const METHOD_HEADER: &str = "Mcp-Method";
/// The header that repeats the parameter of [`name_param`].
pub const NAME_HEADER: &str = "Mcp-Name";
/// The beginning of the headers that repeat arguments of tools.
pub const PARAM_HEADER_PREFIX: &str = "Mcp-Param-";

const BASE64_MARKERS: (&str, &str) = ("=?base64?", "?=");

/// Encodes a value for a header: plain where that is safe, else in Base64.
// HM-08, HM-09
pub fn encode_value(value: &str) -> Cow<'_, str> {
    let padded = value.starts_with(' ') || value.ends_with(' ');
    let printable = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    // A plain value that looks encoded would be decoded at the other end.
    let ambiguous = value.starts_with(BASE64_MARKERS.0) && value.ends_with(BASE64_MARKERS.1);
    if printable && !padded && !ambiguous {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{}{}{}", BASE64_MARKERS.0, STANDARD.encode(value), BASE64_MARKERS.1))
}

/// Decodes the value of a header. White space around it is ignored.
// GW-03
pub fn decode_value(header: &[u8]) -> Result<Cow<'_, str>, MalformedHeader> {
    let value = plain_value(header)?;
    let inner = value.strip_prefix(BASE64_MARKERS.0).and_then(|rest| rest.strip_suffix(BASE64_MARKERS.1));
    let Some(encoded) = inner else { return Ok(Cow::Borrowed(value)) };
    let bytes = STANDARD.decode(encoded).map_err(|_| MalformedHeader)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| MalformedHeader)
}

/// Reads the value of a header that is never encoded. White space around it is ignored.
pub fn plain_value(header: &[u8]) -> Result<&str, MalformedHeader> {
    // A tab has to be encoded, but HTTP allows it.
    let is_valid = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7e);
    let value = str::from_utf8(header).ok().filter(|value| value.as_bytes().iter().all(is_valid));
    value.map(|value| value.trim_matches([' ', '\t'])).ok_or(MalformedHeader)
}

/// Whether the decoded value of a header repeats a value of the body. Integers are compared as
/// numbers, everything else as text. A value that is never mirrored is repeated by no header.
// GW-03
pub fn repeats_value(header: &str, value: &Json) -> bool {
    match value.as_bytes()[0] {
        b'"' => value.decode::<String>().is_ok_and(|text| text == header),
        b't' | b'f' => value.as_bytes() == header.as_bytes(),
        b'-' | b'0'..=b'9' => {
            let number = header.parse().ok().and_then(|header| safe_integer(&header));
            number.is_some() && number == safe_integer(value)
        }
        _ => false,
    }
}

/// A header value with a byte that it must not have, or with invalid Base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedHeader;

impl fmt::Display for MalformedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a valid value of a mirrored header")
    }
}

impl std::error::Error for MalformedHeader {}

/// The arguments of one tool that its schema asks to repeat in headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderAnnotations(Vec<HeaderAnnotation>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeaderAnnotation {
    /// The property names that lead to the argument.
    path: Vec<Box<str>>,
    header: String,
}

/// An invalid annotation, for which the whole tool is refused.
// HM-05
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAnnotation {
    /// The path of the annotation, such as `properties.region`, cut to 200 bytes.
    pub path: String,
    /// Why it is invalid.
    pub reason: InvalidReason,
}

/// Why an annotation is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidReason {
    /// The header name is not a string, or empty.
    MissingName,
    /// The header name has a character that header names cannot have.
    NotAToken,
    /// Another argument has the same header name, ignoring case.
    Duplicate,
    /// The type of the argument is not exactly `string`, `integer` or `boolean`.
    UnsupportedType,
    // HM-06
    /// The argument is not reached by `properties` alone, so its value has no fixed place.
    Unreachable,
    /// The schema is nested too deeply.
    TooDeep,
    /// The schema has too many annotations.
    TooMany,
}

impl fmt::Display for InvalidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingName => "the header name is not a non-empty string",
            Self::NotAToken => "the header name has a character that is not allowed",
            Self::Duplicate => "the header name stands twice",
            Self::UnsupportedType => "only strings, integers and booleans can be mirrored",
            Self::Unreachable => "the argument is not reached through properties alone",
            Self::TooDeep => "the schema is too deep",
            Self::TooMany => return write!(f, "more than {MAX_ANNOTATIONS} arguments to mirror"),
        })
    }
}

impl std::error::Error for InvalidReason {}

/// The schema keyword that asks for a header.
const KEYWORD: &str = "x-mcp-header";

/// Maximum depth of a schema. It bounds the stack, and the work, since each level reads its text
/// again.
const MAX_SCHEMA_DEPTH: usize = 64;

/// Maximum number of annotations in a schema, since each costs a pass over the arguments.
const MAX_ANNOTATIONS: usize = 256;

impl HeaderAnnotations {
    /// Finds the annotations of an input schema.
    ///
    /// Nearly all schemas have none; for those this costs one search of their text.
    pub fn from_schema(schema: &Json) -> Result<Self, InvalidAnnotation> {
        let mut walk = SchemaWalker { path: Vec::new(), annotations: Self::default() };
        if mentions_keyword(schema.as_bytes()) {
            // Text that is not an object has no annotations.
            if let Some(schema) = split_members(schema.as_bytes()) {
                walk.visit_schema(&schema, Reachability::Reachable)?;
            }
        }
        Ok(walk.annotations)
    }

    /// Whether nothing is mirrored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the headers for a call with these arguments, as names and encoded values.
    ///
    /// There is none for an argument that is missing, `null`, not a scalar, or not a safe integer.
    // HM-04, HM-07
    pub fn headers(&self, arguments: &Json) -> Vec<(String, String)> {
        let header = |(name, value): (&str, Option<Json>)| Some((name.to_owned(), header_value(&value?)?));
        self.values(Some(arguments)).filter_map(header).collect()
    }

    /// Returns the name of every header, and the value that it repeats, if these arguments have
    /// one that is mirrored.
    // GW-03
    pub fn values<'a>(
        &'a self,
        arguments: Option<&'a Json>,
    ) -> impl Iterator<Item = (&'a str, Option<Json>)> + 'a {
        self.0.iter().map(move |annotation| {
            let value = arguments.and_then(|arguments| {
                annotation.path.iter().try_fold(arguments.clone(), |json, name| json.member(name))
            });
            (&*annotation.header, value.filter(is_mirrored))
        })
    }
}

/// The largest integer that all JSON implementations represent exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

fn header_value(value: &Json) -> Option<String> {
    match value.as_bytes()[0] {
        b'"' => value.decode::<String>().ok().map(|text| encode_value(&text).into_owned()),
        b't' | b'f' => Some(value.to_string()),
        b'-' | b'0'..=b'9' => safe_integer(value).map(|number| number.to_string()),
        _ => None,
    }
}

/// Whether a value has a header.
fn is_mirrored(value: &Json) -> bool {
    match value.as_bytes()[0] {
        b'"' => value.decode::<String>().is_ok(),
        b't' | b'f' => true,
        b'-' | b'0'..=b'9' => safe_integer(value).is_some(),
        _ => false,
    }
}

fn safe_integer(value: &Json) -> Option<i64> {
    let number = value.decode::<i64>().ok().or_else(|| {
        // `42.0` is an integer too.
        let number: f64 = value.decode().ok()?;
        #[expect(clippy::cast_possible_truncation, reason = "saturates, and is then refused")]
        (number.fract() == 0.0).then_some(number as i64)
    })?;
    (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&number).then_some(number)
}

fn mentions_keyword(text: &[u8]) -> bool {
    memmem::find(text, KEYWORD.as_bytes()).is_some()
}

/// The members of a schema, or of a map of schemas.
type Members<'a> = Vec<(Cow<'a, str>, &'a [u8])>;

fn split_members(text: &[u8]) -> Option<Members<'_>> {
    scan::members(text).map(Iterator::collect)
}

/// Whether a subschema describes an argument with a fixed place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reachability {
    /// It is reached from the root by `properties` alone.
    Reachable,
    /// It is reached in any other way.
    Unreachable,
}

/// A walk over a schema that collects its annotations.
struct SchemaWalker<'a> {
    path: Vec<Cow<'a, str>>,
    annotations: HeaderAnnotations,
}

impl<'a> SchemaWalker<'a> {
    fn visit_schema(&mut self, schema: &Members<'a>, place: Reachability) -> Result<(), InvalidAnnotation> {
        if self.path.len() > MAX_SCHEMA_DEPTH {
            return Err(self.invalid_annotation(InvalidReason::TooDeep));
        }
        // The last one counts if a name occurs twice, as in most parsers.
        let member = |name| schema.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value);
        if let Some(name) = member(KEYWORD) {
            self.add_annotation(name, member("type"), place)?;
        }
        for (keyword, value) in schema.iter().filter(|(_, value)| mentions_keyword(value)) {
            let keyword = keyword.clone();
            match &*keyword {
                // Data, not schemas.
                KEYWORD | "default" | "const" | "enum" | "examples" => {}
                "properties" => self.visit_children(keyword, value, place)?,
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                    self.visit_children(keyword, value, Reachability::Unreachable)?;
                }
                // Whether or not the keyword is known, what is below it is unreachable.
                _ => self.visit_unreachable(keyword, value)?,
            }
        }
        Ok(())
    }

    /// Visits a map whose values are schemas.
    fn visit_children(
        &mut self,
        keyword: Cow<'a, str>,
        map: &'a [u8],
        place: Reachability,
    ) -> Result<(), InvalidAnnotation> {
        let Some(children) = scan::members(map) else { return self.visit_unreachable(keyword, map) };
        self.path.push(keyword);
        for (name, child) in children.filter(|(_, child)| mentions_keyword(child)) {
            self.path.push(name);
            if let Some(child) = split_members(child) {
                self.visit_schema(&child, place)?;
            }
            self.path.pop();
        }
        self.path.pop();
        Ok(())
    }

    /// Visits a schema, or an array of them, that `properties` do not lead to.
    fn visit_unreachable(&mut self, keyword: Cow<'a, str>, value: &'a [u8]) -> Result<(), InvalidAnnotation> {
        self.path.push(keyword);
        if let Some(schema) = split_members(value) {
            self.visit_schema(&schema, Reachability::Unreachable)?;
        } else if let Some(list) = scan::elements(value) {
            if self.path.len() > MAX_SCHEMA_DEPTH {
                return Err(self.invalid_annotation(InvalidReason::TooDeep));
            }
            for (index, item) in list.enumerate().filter(|(_, item)| mentions_keyword(item)) {
                self.visit_unreachable(Cow::Owned(index.to_string()), item)?;
            }
        }
        self.path.pop();
        Ok(())
    }

    fn add_annotation(
        &mut self,
        name: &[u8],
        kind: Option<&[u8]>,
        place: Reachability,
    ) -> Result<(), InvalidAnnotation> {
        if place == Reachability::Unreachable {
            return Err(self.invalid_annotation(InvalidReason::Unreachable));
        }
        let name: String = serde_json::from_slice(name).unwrap_or_default();
        if name.is_empty() {
            return Err(self.invalid_annotation(InvalidReason::MissingName));
        }
        if !name.bytes().all(is_token) {
            return Err(self.invalid_annotation(InvalidReason::NotAToken));
        }
        let kind: Option<String> = kind.and_then(|kind| serde_json::from_slice(kind).ok());
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(self.invalid_annotation(InvalidReason::UnsupportedType));
        }
        let header = format!("{PARAM_HEADER_PREFIX}{name}");
        if self.annotations.0.iter().any(|other| other.header.eq_ignore_ascii_case(&header)) {
            return Err(self.invalid_annotation(InvalidReason::Duplicate));
        }
        if self.annotations.0.len() == MAX_ANNOTATIONS {
            return Err(self.invalid_annotation(InvalidReason::TooMany));
        }
        // Every second step is `properties`.
        let path = self.path.iter().skip(1).step_by(2).map(|name| Box::from(&**name)).collect();
        self.annotations.0.push(HeaderAnnotation { path, header });
        Ok(())
    }

    fn invalid_annotation(&self, reason: InvalidReason) -> InvalidAnnotation {
        let mut path = self.path.join(".");
        let end = (0..=path.len().min(200)).rev().find(|end| path.is_char_boundary(*end));
        path.truncate(end.unwrap_or(0));
        InvalidAnnotation { path, reason }
    }
}

/// Whether the byte is allowed in a token of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl std::error::Error for InvalidAnnotation {}

impl fmt::Display for InvalidAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEYWORD} at {}: {}", self.path.escape_debug(), self.reason)
    }
}

#[cfg(test)]
mod tests;
