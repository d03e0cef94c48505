//! Writes the JSON Schema that OpenAI and Anthropic accept.

use serde_json::{Map, Value, json};

use super::flat::{FlatSchema, push_unique};
use super::{RewriteError, Rewriter};

/// Keywords that are copied if their value has the right type.
const COUNTS: [&str; 4] = ["minLength", "maxLength", "minItems", "maxItems"];
const NUMBERS: [&str; 2] = ["minimum", "maximum"];

impl<'s> Rewriter<'s> {
    pub(super) fn plain(&mut self, flat: &FlatSchema<'s>, depth: usize) -> Result<Value, RewriteError> {
        let mut types = flat.types();
        if types.is_empty() && !flat.properties.is_empty() {
            types.push("object");
        }
        // An object without members may still have `additionalProperties`.
        let mut out = if types.contains(&"object") || !flat.properties.is_empty() {
            self.object(&flat.union(), depth)?
        } else {
            Map::new()
        };
        match types.as_slice() {
            [] => drop(out.remove("type")),
            [only] => drop(out.insert("type".to_owned(), json!(only))),
            several => drop(out.insert("type".to_owned(), json!(several))),
        }
        for keyword in ["title", "description"] {
            if let Some(text) = flat.text(keyword).map(|text| self.text(text)).filter(|text| !text.is_empty())
            {
                out.insert(keyword.to_owned(), text.into());
            }
        }
        flat.copy(&["default", "const"], |_| true, &mut out);
        flat.copy(&["enum"], |values| values.as_array().is_some_and(|values| !values.is_empty()), &mut out);
        flat.copy(&["format"], Value::is_string, &mut out);
        if let Some(pattern) = flat.text("pattern").filter(|pattern| self.patterns.accepts(pattern)) {
            out.insert("pattern".to_owned(), pattern.into());
        }
        flat.copy(&COUNTS, Value::is_u64, &mut out);
        flat.copy(&NUMBERS, Value::is_number, &mut out);
        // Providers refuse a `multipleOf` of zero.
        flat.copy(&["multipleOf"], |step| step.as_f64().is_some_and(|step| step > 0.0), &mut out);
        flat.copy(&["uniqueItems"], |unique| *unique == Value::Bool(true), &mut out);
        copy_exclusive_bounds(flat, &mut out);
        self.plain_elements(flat, &types, &mut out, depth)?;
        self.plain_choices(flat, &mut out, depth)?;
        Ok(Value::Object(out))
    }

    fn plain_elements(
        &mut self,
        flat: &FlatSchema<'s>,
        types: &[&str],
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), RewriteError> {
        let elements = flat.elements();
        if elements.is_empty() && !types.contains(&"array") {
            return Ok(());
        }
        // One provider refuses arrays without `items`, and tuples.
        let items = match elements.as_slice() {
            [] => json!({}),
            [only] => self.schema(&[*only], depth + 1)?,
            several => {
                let mut choices: Vec<Value> = Vec::new();
                for element in several {
                    push_unique(&mut choices, self.schema(&[*element], depth + 1)?);
                }
                if choices.len() == 1 { choices.remove(0) } else { json!({ "anyOf": choices }) }
            }
        };
        out.insert("items".to_owned(), items);
        Ok(())
    }

    fn plain_choices(
        &mut self,
        flat: &FlatSchema<'s>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), RewriteError> {
        // One list of alternatives can be expressed; a second one would need `allOf`.
        let Some(choices) = flat.choices.first() else { return Ok(()) };
        let mut written: Vec<Value> = Vec::new();
        for choice in *choices {
            push_unique(&mut written, self.schema(&[choice], depth + 1)?);
        }
        // An alternative without constraints makes the others pointless.
        if !written.contains(&json!({})) {
            out.insert("anyOf".to_owned(), Value::Array(written));
        }
        Ok(())
    }
}

/// Copies exclusive bounds. Draft-04 used `true` beside the bound; later drafts use the bound
/// itself.
fn copy_exclusive_bounds(flat: &FlatSchema<'_>, out: &mut Map<String, Value>) {
    for (keyword, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match flat.get(keyword) {
            Some(Value::Number(number)) => drop(out.insert(keyword.to_owned(), number.clone().into())),
            Some(Value::Bool(true)) => {
                if let Some(number) = out.remove(bound) {
                    out.insert(keyword.to_owned(), number);
                }
            }
            _ => {}
        }
    }
}
