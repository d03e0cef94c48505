//! Checks values against a server's JSON Schema, with bounded cost.
//!
//! Schemas and values come from servers, so both are untrusted:
//!
//! - Nothing is fetched. A reference must point into the schema.
//! - A schema is bounded in bytes, nesting and parts before it is compiled; its patterns run in
//!   linear time, and their size counts.
//! - A value is bounded in bytes and nesting. The work of its check is estimated first, and a check that
//!   would take longer than about a quarter of a second is refused.
//!
//! Dialects: 2020-12 (also without a `$schema`), 2019-09, draft-07, draft-06 and draft-04. `format`
//! is checked where the dialect asserts it, which is up to draft-07.
// JS-01, JS-03, JS-04, TL-06

mod cost;
mod dialect;
mod graph;
mod output;
mod pattern;

use std::fmt::{self, Write as _};

use bowline_proto::wire::Json;
use jsonschema::{Draft, PatternOptions, Regex, Validator};
use serde_json::Value;

use self::graph::Graph;

#[cfg(feature = "model")]
pub(crate) use self::graph::Targets;

pub(crate) use output::first_violation;
pub use output::{OutputCheck, check_output};

/// A compiled schema. Compiling costs more than checking, so keep it.
pub struct Schema {
    validator: Validator,
    graph: Graph,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It has too many bytes.
    #[error("the schema has {0} bytes; at most {max} are read", max = MAX_BYTES)]
    TooLarge(usize),
    /// It is nested too deeply, or is not a JSON object or boolean.
    #[error("the schema cannot be read: {0}")]
    Unreadable(String),
    /// It has too many subschemas.
    #[error("the schema has more than {max} parts", max = MAX_PARTS)]
    TooManyParts,
    /// Its `$schema` names an unsupported dialect.
    #[error("the schema is written in an unsupported dialect: {0}")]
    Dialect(String),
    /// It refers to something outside itself, which is never fetched.
    #[error("the schema refers to {0}, which is not within it; nothing is fetched")]
    Remote(String),
    /// It refers to a part that does not exist.
    #[error("the schema refers to {0}, which it does not have")]
    Dangling(String),
    /// It refers back to itself without descending into the value.
    #[error("the schema refers to itself without end")]
    Endless,
    /// Its patterns are too large.
    #[error("the patterns of the schema are too large")]
    Patterns,
    /// It is not a valid schema, or has a pattern that cannot run in linear time.
    #[error("the schema is not valid: {0}")]
    Invalid(String),
}

/// One way in which a value violates a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Position in the value, as a JSON pointer; empty for the whole value. Of a long one only the
    /// end is kept, after `…`.
    pub at: String,
    /// What is wrong. It may quote the value, shortened.
    pub what: String,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaVerdict {
    /// The value fits.
    Fits,
    /// The value does not fit, with the first few reasons, at least one.
    Violations(Vec<Violation>),
    /// The value was not checked because that would cost too much, with the reason.
    Unchecked(&'static str),
}

/// Maximum size of a schema, in bytes. The largest real ones have a few hundred thousand.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of subschemas.
const MAX_PARTS: usize = 10_000;
/// Maximum size of a value, in bytes. Parsed, it takes up to thirty times that.
const MAX_VALUE_BYTES: usize = 8 << 20;
/// Maximum number of violations that are reported.
const MAX_VIOLATIONS: usize = 20;
/// Maximum length of a violation and of its position, in characters: both may quote a whole value.
const MAX_TEXT_CHARS: usize = 300;
/// Maximum memory for one compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 20;

/// The approximate size of a pattern; see [`pattern::states`].
#[cfg(feature = "model")]
pub(crate) fn pattern_states(pattern: &str) -> u64 {
    pattern::states(pattern)
}

/// Whether a pattern is well-formed and runs in linear time. This compiles it, so check its size
/// first.
#[cfg(feature = "model")]
pub(crate) fn is_linear(pattern: &str) -> bool {
    let options = jsonschema::options().with_pattern_options(pattern_options()).offline();
    options.build(&serde_json::json!({ "pattern": pattern })).is_ok()
}

/// The JSON Schema of a Rust type, in the dialect 2020-12: what the type accepts when it is
/// deserialized. It is an `inputSchema` for the type of a tool's arguments, or the form of an
/// elicitation for a flat struct.
///
/// ```
/// use bowline::schema::{self, Schema};
///
/// #[derive(schemars::JsonSchema)]
/// struct Search {
///     query: String,
///     limit: Option<u8>,
/// }
///
/// let schema = Schema::compile(&schema::of::<Search>()).unwrap();
/// assert!(schema.check(&r#"{ "query": "knots" }"#.parse().unwrap()).is_ok());
/// assert!(schema.check(&r#"{ "limit": 3 }"#.parse().unwrap()).is_err());
/// ```
///
/// # Panics
/// If the type has a schema of its own making that is not JSON.
#[cfg(feature = "schemars")]
pub fn of<T: schemars::JsonSchema + ?Sized>() -> Json {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    Json::encode(&schema).expect("a schema is JSON")
}

fn pattern_options() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(MAX_PATTERN_BYTES)
}

impl Schema {
    /// Compiles a schema.
    pub fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let ParsedSchema { value, dialect } = ParsedSchema::parse(schema)?;
        let graph = Graph::build(&value, dialect)?;
        let options =
            jsonschema::options().with_draft(dialect).with_pattern_options(pattern_options()).offline();
        let validator =
            options.build(&value).map_err(|error| SchemaError::Invalid(truncate_display(&error)))?;
        Ok(Self { validator, graph })
    }

    /// Checks `value`. One that is too costly to check is an error too; [`Schema::verdict`] tells
    /// the two apart.
    pub fn check(&self, value: &Json) -> Result<(), Vec<Violation>> {
        match self.verdict(value) {
            SchemaVerdict::Fits => Ok(()),
            SchemaVerdict::Violations(violations) => Err(violations),
            SchemaVerdict::Unchecked(why) => Err(vec![Violation::new("", why)]),
        }
    }

    /// Checks `value`, or says why it was not checked.
    pub fn verdict(&self, value: &Json) -> SchemaVerdict {
        if value.as_bytes().len() > MAX_VALUE_BYTES {
            return SchemaVerdict::Unchecked("the value is too large to be checked");
        }
        match value.decode() {
            Ok(value) => self.verdict_of(&value),
            Err(_) => SchemaVerdict::Unchecked("the value is nested too deeply to be checked"),
        }
    }

    /// [`Schema::verdict`] for a parsed value.
    pub(crate) fn verdict_of(&self, value: &Value) -> SchemaVerdict {
        let Some(cost) = cost::estimate(&self.graph, value) else {
            return SchemaVerdict::Unchecked("the value is too costly to be checked against its schema");
        };
        if self.validator.is_valid(value) {
            return SchemaVerdict::Fits;
        }
        if !cost.is_small() {
            // The validator collects all reasons before returning the first, which would take too
            // much memory here.
            let what = "it does not fit, and is too large to say where".to_owned();
            return SchemaVerdict::Violations(vec![Violation::new("", what)]);
        }
        let mut errors: Vec<_> = self.validator.iter_errors(value).collect();
        errors.sort_by(|one, other| one.instance_path().as_str().cmp(other.instance_path().as_str()));
        let violations = errors
            .iter()
            .take(MAX_VIOLATIONS)
            .map(|error| Violation::new(path_tail(error.instance_path().as_str()), truncate_display(error)));
        SchemaVerdict::Violations(violations.collect())
    }
}

/// A schema that was parsed and not yet compiled.
pub(crate) struct ParsedSchema {
    pub(crate) value: Value,
    dialect: Draft,
}

impl ParsedSchema {
    pub(crate) fn parse(schema: &Json) -> Result<Self, SchemaError> {
        let bytes = schema.as_bytes().len();
        if bytes > MAX_BYTES {
            return Err(SchemaError::TooLarge(bytes));
        }
        // The parser limits nesting to 128 levels, so later recursion cannot overflow the stack.
        let mut value: Value = schema.decode().map_err(|error| SchemaError::Unreadable(error.to_string()))?;
        let dialect = dialect::normalize(&mut value)?;
        Ok(Self { value, dialect })
    }

    /// The targets of its references. Fails if one points outside or into a cycle.
    #[cfg(feature = "model")]
    pub(crate) fn targets(&self) -> Result<Targets<'_>, SchemaError> {
        Graph::targets(&self.value, self.dialect)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("parts", &self.graph.len()).finish_non_exhaustive()
    }
}

impl Violation {
    /// Creates a violation at a position, which is empty for the whole value.
    pub fn new(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() { f.write_str(&self.what) } else { write!(f, "{}: {}", self.at, self.what) }
    }
}

/// The end of a path, which is more specific than its beginning.
fn path_tail(place: &str) -> String {
    match place.char_indices().rev().nth(MAX_TEXT_CHARS - 1) {
        Some((at, _)) if at > 0 => format!("…{}", &place[at..]),
        _ => place.to_owned(),
    }
}

/// Formats a text up to the maximum length, without writing the rest of a long one.
fn truncate_display(text: &dyn fmt::Display) -> String {
    struct Short(String, usize);
    impl fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for character in text.chars() {
                if self.1 == 0 {
                    self.0.push('…');
                    return Err(fmt::Error);
                }
                self.1 -= 1;
                self.0.push(character);
            }
            Ok(())
        }
    }
    let mut short = Short(String::new(), MAX_TEXT_CHARS);
    // It fails when it is full, as intended.
    let _ = write!(short, "{text}");
    short.0
}
