//! Mirrored headers of the modern era: which parts of a request are repeated in HTTP headers, so
//! that proxies can route without reading bodies, and how the values are encoded.
// HM-03 to HM-09

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

const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// Encodes a value for a header: plain where that is safe, else in Base64.
// HM-08, HM-09
pub fn encode_value(value: &str) -> Cow<'_, str> {
    let padded = value.starts_with(' ') || value.ends_with(' ');
    let printable = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    // A plain value that looks encoded would be decoded at the other end.
    let ambiguous = value.starts_with(SENTINEL.0) && value.ends_with(SENTINEL.1);
    if printable && !padded && !ambiguous {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{}{}{}", SENTINEL.0, STANDARD.encode(value), SENTINEL.1))
}

/// The arguments of one tool that its schema asks to repeat in headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(Vec<Annotation>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Annotation {
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
    pub reason: Reason,
}

/// Why an annotation is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The header name is not a string, or empty.
    #[error("the header name is not a non-empty string")]
    NoName,
    /// The header name has a character that header names cannot have.
    #[error("the header name has a character that is not allowed")]
    NotAToken,
    /// Another argument has the same header name, ignoring case.
    #[error("the header name stands twice")]
    Duplicate,
    /// The type of the argument is not exactly `string`, `integer` or `boolean`.
    #[error("only strings, integers and booleans can be mirrored")]
    Type,
    // HM-06
    /// The argument is not reached by `properties` alone, so its value has no fixed place.
    #[error("the argument is not reached through properties alone")]
    Unreachable,
    /// The schema is nested too deeply.
    #[error("the schema is too deep")]
    TooDeep,
    /// The schema has too many annotations.
    #[error("more than {MOST} arguments to mirror")]
    TooMany,
}

/// The schema keyword that asks for a header.
const KEYWORD: &str = "x-mcp-header";

/// Maximum depth of a schema. It bounds the stack, and the work, since each level reads its text
/// again.
const DEEPEST: usize = 64;

/// Maximum number of annotations in a schema, since each costs a pass over the arguments.
const MOST: usize = 256;

impl Annotations {
    /// Finds the annotations of an input schema.
    ///
    /// Nearly all schemas have none; for those this costs one search of their text.
    pub fn of_schema(schema: &Json) -> Result<Self, InvalidAnnotation> {
        let mut walk = Walk { path: Vec::new(), found: Self::default() };
        if mentions(schema.as_bytes()) {
            // Text that is not an object has no annotations.
            if let Some(schema) = split(schema.as_bytes()) {
                walk.schema(&schema, Place::Reachable)?;
            }
        }
        Ok(walk.found)
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
        let header = |annotation: &Annotation| {
            let value = annotation.path.iter().try_fold(arguments.clone(), |json, name| json.member(name))?;
            Some((annotation.header.clone(), header_value(&value)?))
        };
        self.0.iter().filter_map(header).collect()
    }
}

/// The largest integer that all JSON implementations represent exactly.
const SAFE: i64 = (1 << 53) - 1;

fn header_value(value: &Json) -> Option<String> {
    match value.as_bytes()[0] {
        b'"' => value.decode::<String>().ok().map(|text| encode_value(&text).into_owned()),
        b't' | b'f' => Some(value.to_string()),
        b'-' | b'0'..=b'9' => {
            let number = value.decode::<i64>().ok().or_else(|| {
                // `42.0` is an integer too.
                let number: f64 = value.decode().ok()?;
                #[expect(clippy::cast_possible_truncation, reason = "saturates, and is then refused")]
                (number.fract() == 0.0).then_some(number as i64)
            })?;
            (-SAFE..=SAFE).contains(&number).then(|| number.to_string())
        }
        _ => None,
    }
}

fn mentions(text: &[u8]) -> bool {
    memmem::find(text, KEYWORD.as_bytes()).is_some()
}

/// The members of a schema, or of a map of schemas.
type Members<'a> = Vec<(Cow<'a, str>, &'a [u8])>;

fn split(text: &[u8]) -> Option<Members<'_>> {
    scan::members(text).map(Iterator::collect)
}

/// Whether a subschema describes an argument with a fixed place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is reached from the root by `properties` alone.
    Reachable,
    /// It is reached in any other way.
    Elsewhere,
}

/// A walk over a schema that collects its annotations.
struct Walk<'a> {
    path: Vec<Cow<'a, str>>,
    found: Annotations,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &Members<'a>, place: Place) -> Result<(), InvalidAnnotation> {
        if self.path.len() > DEEPEST {
            return Err(self.invalid(Reason::TooDeep));
        }
        // The last one counts if a name occurs twice, as in most parsers.
        let member = |name| schema.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value);
        if let Some(name) = member(KEYWORD) {
            self.annotation(name, member("type"), place)?;
        }
        for (keyword, value) in schema.iter().filter(|(_, value)| mentions(value)) {
            let keyword = keyword.clone();
            match &*keyword {
                // Data, not schemas.
                KEYWORD | "default" | "const" | "enum" | "examples" => {}
                "properties" => self.children(keyword, value, place)?,
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                    self.children(keyword, value, Place::Elsewhere)?;
                }
                // Whether or not the keyword is known, what is below it is unreachable.
                _ => self.below(keyword, value)?,
            }
        }
        Ok(())
    }

    /// Visits a map whose values are schemas.
    fn children(
        &mut self,
        keyword: Cow<'a, str>,
        map: &'a [u8],
        place: Place,
    ) -> Result<(), InvalidAnnotation> {
        let Some(children) = scan::members(map) else { return self.below(keyword, map) };
        self.path.push(keyword);
        for (name, child) in children.filter(|(_, child)| mentions(child)) {
            self.path.push(name);
            if let Some(child) = split(child) {
                self.schema(&child, place)?;
            }
            self.path.pop();
        }
        self.path.pop();
        Ok(())
    }

    /// Visits a schema, or an array of them, that `properties` do not lead to.
    fn below(&mut self, keyword: Cow<'a, str>, value: &'a [u8]) -> Result<(), InvalidAnnotation> {
        self.path.push(keyword);
        if let Some(schema) = split(value) {
            self.schema(&schema, Place::Elsewhere)?;
        } else if let Some(list) = scan::elements(value) {
            if self.path.len() > DEEPEST {
                return Err(self.invalid(Reason::TooDeep));
            }
            for (index, item) in list.enumerate().filter(|(_, item)| mentions(item)) {
                self.below(Cow::Owned(index.to_string()), item)?;
            }
        }
        self.path.pop();
        Ok(())
    }

    fn annotation(
        &mut self,
        name: &[u8],
        kind: Option<&[u8]>,
        place: Place,
    ) -> Result<(), InvalidAnnotation> {
        if place == Place::Elsewhere {
            return Err(self.invalid(Reason::Unreachable));
        }
        let name: String = serde_json::from_slice(name).unwrap_or_default();
        if name.is_empty() {
            return Err(self.invalid(Reason::NoName));
        }
        if !name.bytes().all(is_token) {
            return Err(self.invalid(Reason::NotAToken));
        }
        let kind: Option<String> = kind.and_then(|kind| serde_json::from_slice(kind).ok());
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(self.invalid(Reason::Type));
        }
        let header = format!("Mcp-Param-{name}");
        if self.found.0.iter().any(|other| other.header.eq_ignore_ascii_case(&header)) {
            return Err(self.invalid(Reason::Duplicate));
        }
        if self.found.0.len() == MOST {
            return Err(self.invalid(Reason::TooMany));
        }
        // Every second step is `properties`.
        let path = self.path.iter().skip(1).step_by(2).map(|name| Box::from(&**name)).collect();
        self.found.0.push(Annotation { path, header });
        Ok(())
    }

    fn invalid(&self, reason: Reason) -> InvalidAnnotation {
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
