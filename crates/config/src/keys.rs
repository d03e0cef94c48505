//! Owns how a key of the configuration is defined: once, with its name, kind of value, documentation
//! and default. Its reader, its place in the schema, suggestions, and its row in
//! `docs/configuration.md` come from that definition.

mod kinds;
#[cfg(test)]
mod reference;

use serde_json::{Map, Value};

use crate::dialect::Fields;
use crate::report::{Finding, LocatedValue, Location};
use crate::suggest;
use crate::tree::{self, Node};

pub(crate) use kinds::{
    Boolean, Choice, CommandLine, Count, EnvironmentName, Interval, Label, Models, NonEmptyText, Port,
    Scopes, StringMap, Strings, Text, Timeout,
};

/// One key of a table, as [`keys!`] defines it.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static [&'static str],
    pub(crate) default: Option<fn() -> Value>,
    /// Other words for it, which are not read but lead to a suggestion.
    pub(crate) meant_by: &'static [&'static str],
    /// Its spellings in hosts' files, ours first; none if hosts' files do not have it.
    pub(crate) hosts: &'static [&'static str],
    /// See [`ValueKind::HAS_HEADER`].
    pub(crate) has_header: bool,
    pub(crate) schema: fn() -> Value,
    #[cfg(test)]
    pub(crate) form: fn() -> String,
}

/// The kind of value that a key has: how it is read, and its schema.
pub(crate) trait ValueKind {
    /// The value as it is read, before it is resolved.
    type Value;

    /// Whether it is a table or a list of tables that has its own header in TOML. Problems are then
    /// located at the key in that header, not at the value.
    const HAS_HEADER: bool = false;

    /// What a value is, for messages and documentation: "a string".
    const FORM: &str;

    /// Returns [`ValueKind::FORM`], or more if it depends on a parameter of the kind.
    fn form() -> String {
        Self::FORM.to_owned()
    }

    /// Reads a value, or reports why it cannot be read.
    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self::Value>>;

    fn schema() -> Value;
}

/// A table of the configuration, whose keys are defined by [`keys!`].
pub(crate) trait KeyTable: Default {
    const DOC: &'static [&'static str];
    const KEYS: &'static [Key];

    /// Returns the keywords of the schema that relate its keys to each other.
    fn rules() -> Value;

    /// Reads the value of one of [`KeyTable::KEYS`]. One that cannot be read counts as garbled.
    fn read_key(&mut self, name: &'static str, read: &mut Fields<'_, '_>, node: Node, place: Location);

    /// Keys that were given but could not be read, which has been reported. Reporting them as
    /// missing too would be a second complaint about one mistake.
    fn garbled(&mut self) -> &mut Vec<&'static str>;

    /// Returns what is to be said about an unknown key in place of a suggestion, if there is more to
    /// say.
    fn explain(_unknown: &str, _value: &tree::Value, _table: &Location) -> Option<Finding> {
        None
    }

    fn find(name: &str) -> Option<&'static Key> {
        Self::KEYS.iter().find(|key| key.name == name)
    }

    /// Guesses which key an unknown one stands for.
    fn suggest(unknown: &str) -> Option<&'static str> {
        let meant = Self::KEYS.iter().find(|key| key.meant_by.contains(&unknown));
        meant.map(|key| key.name).or_else(|| suggest::closest(unknown, Self::KEYS.iter().map(|key| key.name)))
    }

    /// Returns the schema of the table.
    fn table_schema() -> Value {
        let mut properties = Map::new();
        for key in Self::KEYS {
            let mut schema = (key.schema)();
            schema["description"] = lines(key.doc).into();
            if let Some(default) = key.default {
                schema["default"] = default();
            }
            properties.insert(key.name.to_owned(), schema);
        }
        let mut table = Self::rules();
        table["type"] = "object".into();
        table["description"] = lines(Self::DOC).into();
        table["properties"] = properties.into();
        table["additionalProperties"] = false.into();
        table
    }
}

/// Joins the lines of a doc comment, each of which begins with a blank.
pub(crate) fn lines(doc: &[&str]) -> String {
    let lines: Vec<&str> = doc.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n")
}

/// Defines a table of the configuration and its keys:
///
/// ```text
/// keys! {
///     /// The description of the table.
///     pub(crate) struct RawExample {
///         /// The description of the key.
///         #[meant_by("other", "words")]        // optional: not read, but understood
///         #[hosts("wait", "waitTime")]         // optional: its spellings in hosts' files
///         wait: Timeout = Example::WAIT,       // its kind, and optionally its default
///         kind as "type": Text,                // a field that cannot have the key's name
///     }
///     rules { "dependentRequired": { "wait": ["type"] } }   // optional: keywords of the schema
///     explain explain_unknown_key                           // optional: see KeyTable::explain
/// }
/// ```
///
/// Each field holds `Option<LocatedValue<_>>` of what its kind reads.
macro_rules! keys {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $Table:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[meant_by($($meant_by:literal),+)])?
                $(#[hosts($($hosts:literal),+)])?
                $field:ident $(as $name:literal)?: $Kind:ty $(= $default:expr)?,
            )*
            $(; $(#[doc = $state_doc:literal])* $state:ident: $State:ty,)?
        }
        $(rules { $($rules:tt)* })?
        $(explain $explain:ident)?
    ) => {
        $(#[doc = $about])*
        #[derive(Default)]
        $vis struct $Table {
            $(
                $(#[doc = $doc])*
                pub(crate) $field: Option<$crate::report::LocatedValue<<$Kind as $crate::keys::ValueKind>::Value>>,
            )*
            $($(#[doc = $state_doc])* pub(crate) $state: $State,)?
            /// See [`KeyTable::garbled`](crate::keys::KeyTable::garbled).
            pub(crate) garbled: Vec<&'static str>,
        }

        impl $crate::keys::KeyTable for $Table {
            const DOC: &'static [&'static str] = &[$($about),*];
            const KEYS: &'static [$crate::keys::Key] = &[$(
                $crate::keys::Key {
                    name: $crate::keys::keys!(@name $field $($name)?),
                    doc: &[$($doc),*],
                    default: $crate::keys::keys!(@default $($default)?),
                    meant_by: &[$($($meant_by),+)?],
                    hosts: &[$($($hosts),+)?],
                    has_header: <$Kind as $crate::keys::ValueKind>::HAS_HEADER,
                    schema: <$Kind as $crate::keys::ValueKind>::schema,
                    #[cfg(test)]
                    form: <$Kind as $crate::keys::ValueKind>::form,
                },
            )*];

            fn rules() -> serde_json::Value {
                serde_json::json!({ $($($rules)*)? })
            }

            $(
                fn explain(
                    unknown: &str,
                    value: &$crate::tree::Value,
                    table: &$crate::report::Location,
                ) -> Option<$crate::report::Finding> {
                    $explain(unknown, value, table)
                }
            )?

            fn read_key(
                &mut self,
                name: &'static str,
                read: &mut $crate::dialect::Fields<'_, '_>,
                node: $crate::tree::Node,
                place: $crate::report::Location,
            ) {
                $(
                    if name == $crate::keys::keys!(@name $field $($name)?) {
                        self.$field = <$Kind as $crate::keys::ValueKind>::read(read, node, place);
                        self.garbled.extend(self.$field.is_none().then_some(name));
                        return;
                    }
                )*
                unreachable!("{name} is not a key of this table");
            }

            fn garbled(&mut self) -> &mut Vec<&'static str> {
                &mut self.garbled
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@default) => { None };
    (@default $default:expr) => { Some(|| serde_json::json!($default)) };
}

pub(crate) use keys;
