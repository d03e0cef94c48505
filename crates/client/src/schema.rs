//! Owns what a server's JSON Schema may cost us, and whether a value fits it (groups JS, TL-06).
//!
//! A schema comes from the server, and so do the values: both are hostile until shown otherwise.
//!
//! - Nothing is fetched. A reference must lead to a place within the schema (JS-03).
//! - A schema is bounded in bytes, nesting and parts before it is compiled; its patterns run in linear
//!   time, and their size counts.
//! - A value is bounded in bytes and nesting, and before it is checked the work is counted: see
//!   `Walk` in `cost.rs` for what bounds it (JS-04).
//!
//! Dialects: 2020-12 (also without a `$schema`), 2019-09, draft-07, draft-06 and draft-04 (JS-01). `format`
//! is checked where the dialect asserts it, which is up to draft-07.

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

pub(crate) use self::graph::Targets;

pub use output::{OutputCheck, check_output};

/// A compiled schema. To compile costs more than to check: keep it.
pub struct Schema {
    validator: Validator,
    graph: Graph,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Too many bytes.
    #[error("the schema has {0} bytes; at most {max} are read", max = MAX_BYTES)]
    TooLarge(usize),
    /// It is nested too deeply to be read, or it is no JSON object or boolean.
    #[error("the schema cannot be read: {0}")]
    Unreadable(String),
    /// Too many schemas within it.
    #[error("the schema has more than {max} parts", max = MAX_PARTS)]
    TooManyParts,
    /// Its `$schema` names a dialect that is not known here.
    #[error("the schema is written in an unsupported dialect: {0}")]
    Dialect(String),
    /// It refers to something outside itself, which is never fetched.
    #[error("the schema refers to {0}, which is not within it; nothing is fetched")]
    Remote(String),
    /// It refers to a place within itself that is not there.
    #[error("the schema refers to {0}, which it does not have")]
    Dangling(String),
    /// It leads back to itself without going down into the value.
    #[error("the schema refers to itself without end")]
    Endless,
    /// Its patterns are too large.
    #[error("the patterns of the schema are too large")]
    Patterns,
    /// It is no valid schema, or has a pattern that cannot run in linear time.
    #[error("the schema is not valid: {0}")]
    Invalid(String),
}

/// One way in which a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where in the value, as a JSON pointer; empty for the whole. Of a long one only the end, after `…`.
    pub at: String,
    /// What is wrong there. It may quote the value, shortened.
    pub what: String,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits.
    Fits,
    /// It does not: the first few reasons, at least one.
    Misfits(Vec<Violation>),
    /// It was not checked, because that would cost too much: why.
    Unchecked(&'static str),
}

/// Bytes of a schema. The largest that are met in the field have a few hundred thousand.
const MAX_BYTES: usize = 1 << 20;
/// Schemas within a schema.
const MAX_PARTS: usize = 10_000;
/// Bytes of a value. It becomes a tree of perhaps thirty times that.
const MAX_VALUE: usize = 8 << 20;
/// How many violations are told.
const MAX_VIOLATIONS: usize = 20;
/// How much of one is told, in characters: it may quote a whole value, and so may the place.
const MAX_TEXT: usize = 300;
/// Memory for one compiled pattern.
const MAX_PATTERN: usize = 4 << 20;

/// About how large a pattern is. See [`pattern::states`].
pub(crate) fn pattern_states(pattern: &str) -> u64 {
    pattern::states(pattern)
}

/// Whether a pattern is well-formed and runs in linear time. It is compiled: look at its size first.
pub(crate) fn is_linear(pattern: &str) -> bool {
    let options = jsonschema::options().with_pattern_options(patterns()).offline();
    options.build(&serde_json::json!({ "pattern": pattern })).is_ok()
}

fn patterns() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(MAX_PATTERN)
}

impl Schema {
    /// Compiles a schema.
    pub fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let Read { value, dialect } = Read::of(schema)?;
        let graph = Graph::of(&value, dialect)?;
        let options = jsonschema::options().with_draft(dialect).with_pattern_options(patterns()).offline();
        let validator = options.build(&value).map_err(|error| SchemaError::Invalid(short(&error)))?;
        Ok(Self { validator, graph })
    }

    /// Whether `value` fits. One that is too costly to check does not; [`Schema::verdict`] tells the two
    /// apart.
    pub fn check(&self, value: &Json) -> Result<(), Vec<Violation>> {
        match self.verdict(value) {
            Verdict::Fits => Ok(()),
            Verdict::Misfits(violations) => Err(violations),
            Verdict::Unchecked(why) => Err(vec![Violation { at: String::new(), what: why.to_owned() }]),
        }
    }

    /// Whether `value` fits, or why that was not found out.
    pub fn verdict(&self, value: &Json) -> Verdict {
        if value.as_bytes().len() > MAX_VALUE {
            return Verdict::Unchecked("the value is too large to be checked");
        }
        match value.decode() {
            Ok(value) => self.verdict_of(&value),
            Err(_) => Verdict::Unchecked("the value is nested too deeply to be checked"),
        }
    }

    /// [`Schema::verdict`] of a value that was read already.
    pub(crate) fn verdict_of(&self, value: &Value) -> Verdict {
        let Some(cost) = cost::of(&self.graph, value) else {
            return Verdict::Unchecked("the value is too costly to be checked against its schema");
        };
        if self.validator.is_valid(value) {
            return Verdict::Fits;
        }
        if !cost.is_small() {
            // All reasons are collected before the first can be had: memory, for a text nobody reads.
            let what = "it does not fit, and is too large to say where".to_owned();
            return Verdict::Misfits(vec![Violation { at: String::new(), what }]);
        }
        let mut errors: Vec<_> = self.validator.iter_errors(value).collect();
        errors.sort_by(|one, other| one.instance_path().as_str().cmp(other.instance_path().as_str()));
        let violations = errors
            .iter()
            .take(MAX_VIOLATIONS)
            .map(|error| Violation { at: end(error.instance_path().as_str()), what: short(error) });
        Verdict::Misfits(violations.collect())
    }
}

/// A schema that was read and not yet compiled.
pub(crate) struct Read {
    pub(crate) value: Value,
    dialect: Draft,
}

impl Read {
    pub(crate) fn of(schema: &Json) -> Result<Self, SchemaError> {
        let bytes = schema.as_bytes().len();
        if bytes > MAX_BYTES {
            return Err(SchemaError::TooLarge(bytes));
        }
        // The parser stops at 128 levels, so nothing that follows can run out of stack by nesting.
        let mut value: Value = schema.decode().map_err(|error| SchemaError::Unreadable(error.to_string()))?;
        let dialect = dialect::settle(&mut value)?;
        Ok(Self { value, dialect })
    }

    /// What its references mean. It is an error if one leads out of it, or round in a circle.
    pub(crate) fn targets(&self) -> Result<Targets<'_>, SchemaError> {
        Graph::targets(&self.value, self.dialect)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("parts", &self.graph.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() { f.write_str(&self.what) } else { write!(f, "{}: {}", self.at, self.what) }
    }
}

/// The end of a place, which says more than its beginning does.
fn end(place: &str) -> String {
    match place.char_indices().rev().nth(MAX_TEXT - 1) {
        Some((at, _)) if at > 0 => format!("…{}", &place[at..]),
        _ => place.to_owned(),
    }
}

/// The beginning of a text that may be as long as the value it quotes; the rest is never written.
fn short(text: &dyn fmt::Display) -> String {
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
    let mut short = Short(String::new(), MAX_TEXT);
    // It fails where it is full, which is the point.
    let _ = write!(short, "{text}");
    short.0
}
