//! Views of `elicitation/create`: its parameters ([`Elicitation`]) and its result
//! ([`ElicitResult`]).
// Group EL; Appendix H of the checklist has the shapes of fields.

use std::collections::HashSet;

use super::ViewError;
use super::read::{Object, decode_elements};
use crate::wire::Json;

/// The parameters of `elicitation/create`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Elicitation {
    /// A form to fill in.
    Form(Form),
    /// A URL to visit.
    Url(UrlElicitation),
}

/// An elicitation by a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Form {
    /// The message to the person. Untrusted.
    pub message: Box<str>,
    /// The schema that the content must fit.
    pub schema: Json,
    /// The fields of the schema, in the server's order.
    pub fields: Vec<Field>,
}

/// An elicitation by a URL to visit. Nothing may be fetched from it before the person agrees.
// EL-09, EL-11
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlElicitation {
    /// The message to the person. Untrusted.
    pub message: Box<str>,
    /// The URL, not checked.
    pub url: Box<str>,
    /// 2025-11-25: the id that `notifications/elicitation/complete` will name.
    pub id: Option<Box<str>>,
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// Its schema, as received.
    pub json: Json,
    /// Its name in the content.
    pub name: Box<str>,
    /// Whether it must be filled in.
    pub required: bool,
    /// The values that it accepts.
    pub kind: FieldKind,
    // EL-06
    /// The value to fill in beforehand, of the field's type.
    pub default: Option<Json>,
    /// Conditions of the schema that the protocol's subset does not have.
    pub(crate) bounds: Bounds,
}

/// Conditions beyond the protocol's subset of JSON Schema that are checked all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bounds {
    /// The value must be more than this.
    pub(crate) exclusive_minimum: Option<f64>,
    /// The value must be less than this.
    pub(crate) exclusive_maximum: Option<f64>,
    /// The value must be a multiple of this, which is more than zero.
    pub(crate) multiple_of: Option<f64>,
    /// Whether no option may be chosen twice.
    pub(crate) unique_items: bool,
}

/// The kind of a field, with its constraints.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Text.
    #[non_exhaustive]
    Text {
        /// Minimum number of characters.
        min_length: Option<u64>,
        /// Maximum number of characters.
        max_length: Option<u64>,
        /// `email`, `uri`, `date`, `date-time`, or an unknown format that is ignored.
        format: Option<Box<str>>,
        /// A regular expression. Untrusted.
        pattern: Option<Box<str>>,
    },
    /// A number.
    #[non_exhaustive]
    Number {
        /// Whether it must be an integer.
        integer: bool,
        /// Minimum value.
        minimum: Option<f64>,
        /// Maximum value.
        maximum: Option<f64>,
    },
    /// A boolean.
    Boolean,
    /// A choice of one option.
    Choice(Vec<ChoiceOption>),
    /// A choice of several options.
    #[non_exhaustive]
    Choices {
        /// The options.
        options: Vec<ChoiceOption>,
        /// Minimum number of chosen options.
        min_items: Option<u64>,
        /// Maximum number of chosen options.
        max_items: Option<u64>,
    },
}

/// An option of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChoiceOption {
    /// The value that is sent.
    pub value: Box<str>,
    // EL-05
    /// The title that is shown.
    pub title: Box<str>,
}

/// The result of an elicitation.
// EL-08
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElicitResult {
    // EL-10
    /// The person accepted: with the content of a form, or with consent only for a URL.
    Accept(Option<Json>),
    /// The person declined.
    Decline,
    /// The person did neither: it was dismissed, timed out, or could not be shown.
    Cancel,
}

impl Elicitation {
    /// Decodes the parameters. Without a `mode` they are a form.
    // EL-02
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(params)?;
        match object.string("mode").as_deref() {
            None if object.non_null("mode").is_some() => Err(object.misfit("mode", "`form` or `url`")),
            None | Some("form") => Form::from_object(&object).map(Self::Form),
            Some("url") => UrlElicitation::from_object(&object).map(Self::Url),
            Some(_) => Err(object.misfit("mode", "`form` or `url`")),
        }
    }
}

impl UrlElicitation {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            message: object.required("message")?,
            url: object.required("url")?,
            id: object.string("elicitationId").map(Into::into),
        })
    }

    /// Decodes the URL elicitations in the `data` of error -32042. Invalid ones are left out.
    // EL-11
    pub fn from_error_data(data: &Json) -> Vec<Self> {
        let pages = decode_elements(data, "elicitations", Self::from_object);
        pages.map_or_else(|_| Vec::new(), |(_, found)| found.items)
    }
}

impl Form {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        let schema = object.required_object("requestedSchema")?;
        let fields = Self::fields(&schema).map_err(|error| error.in_member("requestedSchema"))?;
        Ok(Self { message: object.required("message")?, schema, fields })
    }

    /// Decodes the fields of a schema. Anything that is not understood, in a field or around them,
    /// is an error, and the form must be declined: a person would be asked for something else than
    /// the server checks (EL-04).
    fn fields(schema: &Json) -> Result<Vec<Field>, ViewError> {
        let object = Object::parse(schema)?;
        if object.string("type").as_deref() != Some("object") {
            return Err(object.misfit("type", "`object`"));
        }
        reject_keywords(&object, &UNSUPPORTED_FORM_KEYWORDS)?;
        let mut required: HashSet<Box<str>> = match object.non_null("required") {
            None => HashSet::new(),
            Some(_) => {
                object.value("required").ok_or_else(|| object.misfit("required", "a list of names"))?
            }
        };
        let properties = object.json("properties").unwrap_or_else(Json::empty_object);
        let properties = Object::parse(&properties).map_err(|error| error.in_member("properties"))?;
        let mut names = HashSet::new();
        let field = |(name, json): (&str, Json)| {
            // It is unknown which of two the server means, and the content has room for one.
            if !names.insert(name.to_owned()) {
                return Err(properties.misfit(name, "one property of this name").in_member("properties"));
            }
            let field = Field::from_schema(name, &json, required.remove(name));
            field.map_err(|error| error.in_member(name).in_member("properties"))
        };
        let fields = properties.iter().map(field).collect::<Result<_, _>>()?;
        // A required name that is left has no field, so it cannot be filled in.
        if !required.is_empty() {
            return Err(object.misfit("required", "a list of names of properties"));
        }
        Ok(fields)
    }

    /// The content that consists of all defaults.
    // EL-06
    pub fn defaults(&self) -> Json {
        let defaults: serde_json::Map<_, _> = self
            .fields
            .iter()
            .filter_map(|field| Some((field.name.to_string(), field.default.as_ref()?.decode().ok()?)))
            .collect();
        Json::encode(&defaults).unwrap_or_else(|_| Json::empty_object())
    }
}

titled!(Field);

impl Field {
    fn from_schema(name: &str, json: &Json, required: bool) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        let kind = FieldKind::from_object(&object)?;
        reject_keywords(&object, &UNSUPPORTED_FIELD_KEYWORDS)?;
        match &kind {
            FieldKind::Choice(_) | FieldKind::Text { .. } => {}
            FieldKind::Number { .. } | FieldKind::Boolean => reject_keywords(&object, &["enum", "oneOf"])?,
            FieldKind::Choices { .. } => {
                reject_keywords(&object, &["enum", "oneOf", "contains", "prefixItems"])?;
            }
        }
        let bounds = Bounds::from_object(&object, &kind)?;
        let default = object.json("default").filter(|default| kind.accepts(default));
        Ok(Self { json: json.clone(), name: name.into(), required, kind, default, bounds })
    }
}

impl Bounds {
    fn from_object(object: &Object<'_>, kind: &FieldKind) -> Result<Self, ViewError> {
        match kind {
            FieldKind::Number { .. } => {
                let multiple_of = optional_number(object, "multipleOf")?;
                if multiple_of.is_some_and(|step| step <= 0.0) {
                    return Err(object.misfit("multipleOf", "a number above 0"));
                }
                let above = optional_number(object, "exclusiveMinimum")?;
                let below = optional_number(object, "exclusiveMaximum")?;
                Ok(Self {
                    exclusive_minimum: above,
                    exclusive_maximum: below,
                    multiple_of,
                    unique_items: false,
                })
            }
            FieldKind::Choices { .. } => {
                let unique = object.flag("uniqueItems");
                if unique.is_none() && object.non_null("uniqueItems").is_some() {
                    return Err(object.misfit("uniqueItems", "true or false"));
                }
                Ok(Self { unique_items: unique.unwrap_or_default(), ..Self::default() })
            }
            // These keywords do not apply to other types.
            FieldKind::Text { .. } | FieldKind::Boolean | FieldKind::Choice(_) => Ok(Self::default()),
        }
    }
}

impl FieldKind {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(match object.string("type").as_deref() {
            Some("string") => match ChoiceOption::decode_options(object, "oneOf")? {
                Some(options) => Self::Choice(options),
                None => Self::Text {
                    min_length: object.count("minLength"),
                    max_length: object.count("maxLength"),
                    format: object.string("format").map(Into::into),
                    pattern: object.string("pattern").map(Into::into),
                },
            },
            Some(name @ ("number" | "integer")) => Self::Number {
                integer: name == "integer",
                minimum: optional_number(object, "minimum")?,
                maximum: optional_number(object, "maximum")?,
            },
            Some("boolean") => Self::Boolean,
            Some("array") => {
                let items = object.required_object("items")?;
                let options = Object::parse(&items).and_then(|items| {
                    ChoiceOption::decode_options(&items, "anyOf")?
                        .ok_or_else(|| items.misfit("enum", "a list of options"))
                });
                Self::Choices {
                    options: options.map_err(|error| error.in_member("items"))?,
                    min_items: object.count("minItems"),
                    max_items: object.count("maxItems"),
                }
            }
            _ => return Err(object.misfit("type", "a primitive type or a list of options")),
        })
    }

    /// Whether `value` has this field's type.
    fn accepts(&self, value: &Json) -> bool {
        match self {
            Self::Text { .. } | Self::Choice(_) => value.decode::<String>().is_ok(),
            // An integer may be written with a fraction: `3.0`.
            Self::Number { integer: true, .. } => {
                value.decode::<i64>().is_ok()
                    || value.decode::<f64>().is_ok_and(|number| number.fract() == 0.0)
            }
            Self::Number { .. } => value.decode::<f64>().is_ok(),
            Self::Boolean => value.decode::<bool>().is_ok(),
            Self::Choices { .. } => value.decode::<Vec<String>>().is_ok(),
        }
    }
}

impl ChoiceOption {
    /// Decodes the options of a choice: those with titles under `pairs`, or `enum` with or without
    /// `enumNames`.
    fn decode_options(object: &Object<'_>, pairs: &'static str) -> Result<Option<Vec<Self>>, ViewError> {
        if let Some(list) = object.json(pairs) {
            let options: Vec<Json> = list.decode().map_err(|_| object.misfit(pairs, "a list of options"))?;
            return options.iter().map(Self::from_titled).collect::<Result<_, _>>().map(Some);
        }
        if object.non_null("enum").is_none() {
            return Ok(None);
        }
        let values: Vec<Box<str>> =
            object.value("enum").ok_or_else(|| object.misfit("enum", "a list of strings"))?;
        let titles: Vec<Box<str>> = object.value("enumNames").unwrap_or_default();
        let mut titles = titles.into_iter();
        let option = |value: Box<str>| Self { title: titles.next().unwrap_or_else(|| value.clone()), value };
        Ok(Some(values.into_iter().map(option).collect()))
    }

    fn from_titled(json: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        let value = object.required("const")?;
        let title = object.string("title").map_or_else(|| value.clone(), Into::into);
        Ok(Self { value, title })
    }
}

/// Keywords that make a form more than a flat list of fields.
const UNSUPPORTED_FORM_KEYWORDS: [&str; 14] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
];

/// Keywords that make a field more than its type and options.
const UNSUPPORTED_FIELD_KEYWORDS: [&str; 7] = ["$ref", "$dynamicRef", "allOf", "anyOf", "not", "if", "const"];

/// Fails if the object has one of `keywords`.
fn reject_keywords(object: &Object<'_>, keywords: &[&str]) -> Result<(), ViewError> {
    match keywords.iter().find(|keyword| object.raw(keyword).is_some()) {
        Some(keyword) => Err(object.misfit(keyword, "no such keyword")),
        None => Ok(()),
    }
}

/// Reads an optional number. Draft 4 has `true` for some keywords, which means something else and
/// fails.
fn optional_number(object: &Object<'_>, name: &'static str) -> Result<Option<f64>, ViewError> {
    match object.non_null(name) {
        None => Ok(None),
        Some(_) => object.value(name).map(Some).ok_or_else(|| object.misfit(name, "a number")),
    }
}

impl ElicitResult {
    /// Decodes an `ElicitResult`.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        match object.string("action").as_deref() {
            Some("accept") => Ok(Self::Accept(object.object("content"))),
            Some("decline") => Ok(Self::Decline),
            Some("cancel") => Ok(Self::Cancel),
            _ => Err(object.misfit("action", "`accept`, `decline` or `cancel`")),
        }
    }

    /// Writes an `ElicitResult`.
    pub fn to_json(&self) -> Json {
        let text = match self {
            Self::Accept(Some(content)) => format!(r#"{{"action":"accept","content":{content}}}"#),
            Self::Accept(None) => r#"{"action":"accept"}"#.to_owned(),
            Self::Decline => r#"{"action":"decline"}"#.to_owned(),
            Self::Cancel => r#"{"action":"cancel"}"#.to_owned(),
        };
        Json::parse(text).expect("written around a value that is JSON")
    }
}
