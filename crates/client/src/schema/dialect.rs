//! The supported dialects of JSON Schema (JS-01).

use jsonschema::Draft;
use serde_json::Value;

use super::{SchemaError, truncate_display};

/// Returns the dialect of a schema, and normalizes its name for the validator.
pub(super) fn normalize(schema: &mut Value) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get_mut("$schema") else { return Ok(Draft::Draft202012) };
    let dialect = named.as_str().and_then(by_name);
    let (draft, name) = dialect.ok_or_else(|| SchemaError::Dialect(truncate_display(named)))?;
    *named = name.into();
    Ok(draft)
}

/// The dialect with this name. Both URL schemes are in use, with and without `#`.
pub(super) fn by_name(name: &str) -> Option<(Draft, &'static str)> {
    let plain = name.strip_suffix('#').unwrap_or(name);
    let plain = plain.strip_prefix("https://").or_else(|| plain.strip_prefix("http://"))?;
    Some(match plain {
        "json-schema.org/draft/2020-12/schema" => {
            (Draft::Draft202012, "https://json-schema.org/draft/2020-12/schema")
        }
        "json-schema.org/draft/2019-09/schema" => {
            (Draft::Draft201909, "https://json-schema.org/draft/2019-09/schema")
        }
        "json-schema.org/draft-07/schema" => (Draft::Draft7, "http://json-schema.org/draft-07/schema#"),
        "json-schema.org/draft-06/schema" => (Draft::Draft6, "http://json-schema.org/draft-06/schema#"),
        "json-schema.org/draft-04/schema" => (Draft::Draft4, "http://json-schema.org/draft-04/schema#"),
        _ => return None,
    })
}
