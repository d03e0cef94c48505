//! Checks the arguments of a model's tool call against the tool's schema.

use std::collections::HashSet;
use std::fmt;

use bowline_proto::wire::Json;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{ModelContext, ModelTool};
use crate::schema::{Schema, SchemaVerdict, Violation};

impl ModelContext {
    /// Returns the arguments for the server, or what is wrong with them, for the model.
    ///
    /// They are checked against the tool's own schema, not the one that the model saw. Renamed
    /// members get their original names back. A schema that cannot be used is skipped: the server
    /// checks too.
    pub fn check_arguments(&self, name: &str, arguments: &Json) -> Result<Json, Vec<Violation>> {
        let Some(tool) = self.resolve(name) else {
            return Err(whole_violation("there is no tool of that name"));
        };
        tool.check_arguments(arguments)
    }
}

impl ModelTool {
    /// [`ModelContext::check_arguments`] for a known tool.
    pub fn check_arguments(&self, arguments: &Json) -> Result<Json, Vec<Violation>> {
        // Models express missing arguments as `null` or `{}`.
        if arguments.is_null() {
            return self.check_arguments(&Json::empty_object());
        }
        if !arguments.is_object() {
            return Err(whole_violation("the arguments must be an object"));
        }
        // The text is kept as it is, since parsing would change large numbers.
        let arguments = self.keys.to_server(arguments);
        let Ok(value) = arguments.decode::<Value>() else {
            return Err(whole_violation("the arguments cannot be read, or are nested too deeply"));
        };
        if let Err(twice) = arguments.decode::<UniqueKeys>() {
            return Err(whole_violation(&twice.to_string()));
        }
        let schema = self.schema.get_or_init(|| Schema::compile(&self.tool.input_schema).ok());
        let verdict = schema.as_ref().map_or(SchemaVerdict::Fits, |schema| schema.verdict_of(&value));
        match verdict {
            SchemaVerdict::Fits | SchemaVerdict::Unchecked(_) => Ok(arguments),
            SchemaVerdict::Violations(violations) => Err(violations),
        }
    }
}

/// JSON without duplicate members. Otherwise one is checked, and the server may use the other.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value::<Self>()?;
            if let Some(name) = seen.replace(name) {
                let name = super::text::sanitize_line(&name);
                return Err(de::Error::custom(format!("the member {name:?} stands there twice")));
            }
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

fn whole_violation(what: &str) -> Vec<Violation> {
    vec![Violation::new("", what)]
}
