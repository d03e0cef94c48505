//! Owns the kinds of values that more than one key has: what is said about them, how they are read,
//! and their schemas.

use std::marker::PhantomData;
use std::time::Duration;

use serde_json::{Value, json};

use super::ValueKind;
use crate::dialect::Fields;
use crate::duration::MAX_DURATION;
use crate::raw::RawMap;
use crate::report::{LocatedValue, Location};
use crate::tree::Node;
use crate::words::{Words, list_words};

/// Defines kinds by name, value, form, reader of [`Fields`] and schema.
macro_rules! kinds {
    ($($(#[$doc:meta])* $Kind:ident: $Value:ty, $form:literal, $reader:ident $(($by_reference:tt))?, $schema:tt;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $Kind;

        impl ValueKind for $Kind {
            type Value = $Value;
            const FORM: &str = $form;

            fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<$Value>> {
                read.$reader($($by_reference)? node, place)
            }

            fn schema() -> Value {
                json!($schema)
            }
        }
    )*};
}

kinds! {
    /// A text in which placeholders are filled.
    Text: String, "a string", string, { "type": "string" };

    /// A text that is not only white space.
    Label: String, "a string", string, { "type": "string", "pattern": VISIBLE };

    /// A text of at least one character.
    NonEmptyText: String, "a string", string, { "type": "string", "minLength": 1 };

    /// The name of an environment variable.
    EnvironmentName: String, "a string", string, { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" };

    Strings: Vec<LocatedValue<String>>, "a list of strings", strings,
        { "type": "array", "items": { "type": "string" } };

    /// Names of models, at least one.
    Models: Vec<LocatedValue<String>>, "a list of strings", strings,
        { "type": "array", "minItems": 1, "items": { "type": "string", "pattern": VISIBLE } };

    /// Scopes: a list, or one string with blanks between them.
    Scopes: Vec<LocatedValue<String>>, "a string or a list of strings", one_or_more,
        { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] };

    /// A program, or a list of it and its arguments.
    CommandLine: Vec<LocatedValue<String>>, "a string or a list of strings", one_or_more, {
        "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        ]
    };

    /// Names with a text each, such as variables and headers.
    StringMap: RawMap, "a table of strings", map,
        { "type": "object", "additionalProperties": { "type": "string" } };

    Boolean: bool, "true or false", boolean(&), { "type": "boolean" };

    /// A duration that is more than zero.
    Timeout: Duration, "a length of time", duration(&), {
        "anyOf": [
            { "type": "number", "exclusiveMinimum": 0, "maximum": MAX_DURATION.as_secs() },
            { "type": "string", "pattern": DURATION },
        ]
    };

    /// A duration that may be zero.
    Interval: Duration, "a length of time", interval(&), {
        "anyOf": [
            { "type": "number", "minimum": 0, "maximum": MAX_DURATION.as_secs() },
            { "type": "string", "pattern": DURATION },
        ]
    };

    Count: u32, "a whole number", count(&), { "type": "integer", "minimum": 1, "maximum": u32::MAX };

    Port: u16, "a port", port(&), { "type": "integer", "minimum": 1, "maximum": u16::MAX };
}

/// One of the words of `T`.
pub(crate) struct Choice<T>(PhantomData<T>);

impl<T: Words> ValueKind for Choice<T> {
    type Value = T;
    const FORM: &str = "one of several words";

    fn form() -> String {
        list_words(T::WORDS)
    }

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<T>> {
        read.choice(node, place)
    }

    fn schema() -> Value {
        T::schema()
    }
}

/// Matches text that is not only white space.
const VISIBLE: &str = r"\S";

/// Matches a number with or without a unit.
const DURATION: &str = r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h)?\s*$";
