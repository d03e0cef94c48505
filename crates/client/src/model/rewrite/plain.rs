//! Writes the JSON Schema that OpenAI and Anthropic accept.

use serde_json::{Map, Value, json};

use super::flat::FlatSchema;
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
        for keyword in ["default", "const"] {
            if let Some(value) = flat.get(keyword) {
                out.insert(keyword.to_owned(), value.clone());
            }
        }
        if let Some(values) = flat.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
            out.insert("enum".to_owned(), json!(values));
        }
        if let Some(format) = flat.text("format") {
            out.insert("format".to_owned(), format.into());
        }
        if let Some(pattern) = flat.text("pattern").filter(|pattern| self.patterns.accepts(pattern)) {
            out.insert("pattern".to_owned(), pattern.into());
        }
        for keyword in COUNTS {
            if let Some(count) = flat.count(keyword) {
                out.insert(keyword.to_owned(), count.into());
            }
        }
        for keyword in NUMBERS {
            if let Some(number) = flat.get(keyword).filter(|number| number.is_number()) {
                out.insert(keyword.to_owned(), number.clone());
            }
        }
        // Providers refuse a `multipleOf` of zero.
        if let Some(step) = flat.get("multipleOf").filter(|step| step.as_f64().is_some_and(|step| step > 0.0))
        {
            out.insert("multipleOf".to_owned(), step.clone());
        }
        if flat.get("uniqueItems") == Some(&Value::Bool(true)) {
            out.insert("uniqueItems".to_owned(), true.into());
        }
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
                    let choice = self.schema(&[*element], depth + 1)?;
                    if !choices.contains(&choice) {
                        choices.push(choice);
                    }
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
            let choice = self.schema(&[choice], depth + 1)?;
            if !written.contains(&choice) {
                written.push(choice);
            }
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
