//! Resource templates: RFC 6570, all four levels, with limits.
//!
//! A template comes from a server and its values from a model, so neither is trusted: both are
//! bounded, and what cannot be expanded is an error, never a half-expanded URI.
//!
//! The parser is our own because iri-string 0.7.14, the best kept crate for this, panics on
//! templates and values that these tests contain: it slices texts of several bytes per character
//! by character counts.
// RS-05

mod expand;
mod parse;

use std::fmt;

use std::collections::BTreeMap;

/// A parsed URI template.
///
/// ```
/// use bowline::templates::{Template, Value};
///
/// let template = Template::parse("repo://{owner}/file/{+path}{?tag*}").unwrap();
/// assert_eq!(template.variables().collect::<Vec<_>>(), ["owner", "path", "tag"]);
/// let values = [
///     ("owner".to_owned(), Value::from("a/../b")),
///     ("path".to_owned(), Value::from("src/lib.rs")),
///     ("tag".to_owned(), Value::from(["x", "y"])),
/// ];
/// let uri = template.expand(&values.into()).unwrap();
/// assert_eq!(uri, "repo://a%2F..%2Fb/file/src/lib.rs?tag=x&tag=y");
/// ```
///
/// # What a value can do to the URI
/// In every expression but two, whatever is not a letter, a digit or one of `-._~` is
/// percent-encoded: a value with `/`, `?` or `#` stays within its component. `{+name}` and
/// `{#name}` ask for the value to be inserted as it is: `../`, `?` and `#` pass through, and the
/// server must handle them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// The value of a variable. An empty list or map counts as undefined.
///
/// Complete: RFC 6570 has no other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string, which may be empty.
    Text(String),
    /// Several strings, in order.
    List(Vec<String>),
    /// Strings by key, in order.
    Map(Vec<(String, String)>),
}

/// Why a template cannot be parsed, or not be expanded with these values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template is not valid RFC 6570.
    Syntax {
        /// Byte offset of the error.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The template is too long or has too many variables.
    TooLarge(&'static str),
    /// The template takes a prefix (`{name:3}`) of a value that is not a string.
    NotText(Box<str>),
    /// The expanded URI would be too long.
    TooLong,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { what, at } => write!(f, "no URI template: {what} at byte {at}"),
            Self::TooLarge(value) => write!(f, "the template is too large ({value})"),
            Self::NotText(name) => {
                write!(f, "{name} must be a text: the template takes the beginning of it")
            }
            Self::TooLong => write!(f, "the expanded URI would be longer than {MAX_URI_BYTES} bytes"),
        }
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        parse::parse_template(text)
    }

    /// The names of its variables, each once, in order of first use.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let mut seen = std::collections::HashSet::new();
        let specs = self.parts.iter().flat_map(|part| match part {
            Part::Literal(_) => &[][..],
            Part::Expression { specs, .. } => specs,
        });
        specs.map(|spec| &*spec.name).filter(move |name| seen.insert(*name))
    }

    /// Expands the template. Variables without a value are left out, as the RFC says; unknown
    /// values are ignored.
    pub fn expand(&self, values: &BTreeMap<String, Value>) -> Result<String, TemplateError> {
        expand::expand_parts(&self.parts, values)
    }
}

/// A literal or an expression of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Copied into the URI; percent-encoded where necessary.
    Literal(Box<str>),
    Expression {
        operator: Operator,
        specs: Vec<VariableSpec>,
    },
}

/// One variable of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
struct VariableSpec {
    name: Box<str>,
    modifier: Modifier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modifier {
    None,
    /// `:n`: the first `n` characters.
    Prefix(usize),
    /// `*`: each element separately.
    Explode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    PathParameter,
    Query,
    Continuation,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<const N: usize> From<[&str; N]> for Value {
    fn from(list: [&str; N]) -> Self {
        Self::List(list.map(str::to_owned).into())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Value {
    fn from(map: [(&str, &str); N]) -> Self {
        Self::Map(map.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
    }
}

/// Maximum size of a template, in bytes.
const MAX_TEMPLATE_BYTES: usize = 8 * 1024;

/// Maximum number of variables of one template.
const MAX_VARIABLES: usize = 256;

/// Maximum size of an expanded URI, in bytes. Servers and proxies accept less.
const MAX_URI_BYTES: usize = 64 * 1024;
