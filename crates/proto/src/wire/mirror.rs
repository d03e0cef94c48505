//! Mirrored headers of the modern era: which parts of a request are repeated in HTTP headers, so that
//! what stands in between can route without reading bodies, and how values are written there
//! (HM-03 to HM-09).

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use super::{Json, method, scan};

/// The parameter that the header `Mcp-Name` repeats, for methods that have one (HM-03, TN-07).
pub fn name_param(method: &str) -> Option<&'static str> {
    match method {
        method::TOOLS_CALL | method::PROMPTS_GET => Some("name"),
        method::RESOURCES_READ => Some("uri"),
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => Some("taskId"),
        _ => None,
    }
}

const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// A value as a header carries it: plain where that is safe, else in Base64 (HM-08, HM-09).
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

/// The arguments of one tool that its schema wants repeated in headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(Vec<Annotation>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Annotation {
    /// The names that lead to the argument.
    path: Vec<Box<str>>,
    header: String,
}

/// Why the annotations of a schema are refused, and with them the tool (HM-05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAnnotation {
    /// Where, such as `properties.region`. At most 200 bytes.
    pub path: String,
    /// Why.
    pub reason: Reason,
}

/// What is wrong with an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Its value is no string, or empty.
    #[error("the header name is not a non-empty string")]
    NoName,
    /// A character that header names cannot have.
    #[error("the header name has a character that is not allowed")]
    NotAToken,
    /// Another argument has the same name, ignoring case.
    #[error("the header name stands twice")]
    Duplicate,
    /// Not exactly `string`, `integer` or `boolean`.
    #[error("only strings, integers and booleans can be mirrored")]
    Type,
    /// Not reached by `properties` alone, so that its value has no fixed place (HM-06).
    #[error("the argument is not reached through properties alone")]
    Unreachable,
    /// Too deep to follow.
    #[error("the schema is too deep")]
    TooDeep,
    /// More than anyone has use for.
    #[error("more than {MOST} arguments to mirror")]
    TooMany,
}

/// The member of a schema that asks for a header.
const KEYWORD: &str = "x-mcp-header";

/// Schemas are followed this deep. It bounds the stack, and the work, since each level reads its text again.
const DEEPEST: usize = 64;

/// Each costs a reading of the arguments.
const MOST: usize = 256;

impl Annotations {
    /// Finds the annotations of an input schema.
    ///
    /// Nearly all schemas have none; for those this costs one search of their text.
    pub fn of_schema(schema: &Json) -> Result<Self, InvalidAnnotation> {
        let mut walk = Walk { path: Vec::new(), found: Self::default() };
        if mentions(schema.as_bytes()) {
            // Text that is no object is no schema with annotations.
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

    /// The headers for a call with these arguments, as names and encoded values (HM-04, HM-07).
    ///
    /// An argument that is missing, `null`, no scalar, or a number that is no safe integer gives none.
    pub fn headers(&self, arguments: &Json) -> Vec<(String, String)> {
        let header = |annotation: &Annotation| {
            let value = annotation.path.iter().try_fold(arguments.clone(), |json, name| json.member(name))?;
            Some((annotation.header.clone(), header_value(&value)?))
        };
        self.0.iter().filter_map(header).collect()
    }
}

/// Beyond this, numbers are not the same everywhere.
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

/// How a schema was come by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// From the root by `properties` alone.
    Reachable,
    /// In any other way.
    Elsewhere,
}

struct Walk<'a> {
    path: Vec<Cow<'a, str>>,
    found: Annotations,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &Members<'a>, place: Place) -> Result<(), InvalidAnnotation> {
        if self.path.len() > DEEPEST {
            return Err(self.invalid(Reason::TooDeep));
        }
        // The last counts where a name stands twice, as in most parsers.
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
                // Known or not, what is below cannot be reached.
                _ => self.below(keyword, value)?,
            }
        }
        Ok(())
    }

    /// The values of `map` are schemas, whatever their names are.
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

    /// A schema, or an array of them, that `properties` do not lead to.
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

/// The characters of a token, RFC 9110.
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
