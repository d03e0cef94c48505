//! The form for the arguments of a call: what a person is asked, and what is sent then.

use bowline::Json;
use serde_json::{Map, Value};

use super::form::ContentProblem;
use super::form_field::FormField;

/// A form for the arguments of a call.
pub(crate) struct ArgumentForm<'a> {
    /// The server that gets the arguments.
    pub(crate) server: &'a str,
    /// What is called.
    pub(crate) name: &'a str,
    /// What the server says about it.
    pub(crate) about: Option<String>,
    pub(crate) fields: Vec<FormField>,
    pub(crate) content: ArgumentContent,
}

/// The arguments as they were given, and how they become what is sent.
pub(crate) struct ArgumentContent {
    /// Sends the arguments, in the review.
    pub(crate) action: &'static str,
    /// The arguments that were given. Those that have no field are sent as they are.
    pub(crate) given: Map<String, Value>,
    /// Checks all arguments.
    pub(crate) check: CheckArguments,
}

/// Checks all arguments, and returns the first problem.
pub(crate) type CheckArguments = Box<dyn Fn(&Value) -> Option<ArgumentProblem> + Send + Sync>;

/// Why arguments cannot be sent.
pub(crate) struct ArgumentProblem {
    /// Where the problem is, as a JSON pointer.
    pub(crate) pointer: String,
    pub(crate) text: String,
}

impl ArgumentContent {
    /// Returns the value that was given for a field.
    pub(super) fn given(&self, field: &FormField) -> Option<Json> {
        let (first, rest) = field.path.split_first()?;
        let value = rest.iter().try_fold(self.given.get(first)?, |value, name| value.get(name))?;
        Json::encode(value).ok()
    }

    /// Builds the arguments from the values of the fields.
    fn assemble(&self, fields: &[FormField], values: &[Option<Json>]) -> Map<String, Value> {
        let mut arguments = self.given.clone();
        for (field, value) in fields.iter().zip(values) {
            match value.as_ref().and_then(|value| value.decode::<Value>().ok()) {
                Some(value) => set_member(&mut arguments, &field.path, value),
                None => remove_member(&mut arguments, &field.path),
            }
        }
        arguments
    }

    /// Returns the arguments that are sent without a field, each with its name and value.
    pub(super) fn fieldless(&self, fields: &[FormField], values: &[Option<Json>]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        find_fieldless(&self.assemble(fields, values), &mut Vec::new(), fields, &mut found);
        found
    }

    /// Builds the arguments from the values of the fields, and checks them.
    pub(super) fn build(
        &self,
        fields: &[FormField],
        values: &[Option<Json>],
    ) -> Result<Json, ContentProblem> {
        let arguments = Value::Object(self.assemble(fields, values));
        if let Some(ArgumentProblem { pointer, text }) = (self.check)(&arguments) {
            let is_at = |field: &FormField| {
                let names: Vec<String> = field.path.iter().map(|name| escape_pointer(name)).collect();
                let own = format!("/{}", names.join("/"));
                pointer == own || pointer.starts_with(&format!("{own}/"))
            };
            return Err(ContentProblem { field: fields.iter().position(is_at), text });
        }
        Json::encode(&arguments).map_err(|error| ContentProblem { field: None, text: error.to_string() })
    }
}

/// Finds the members that have no field, neither themselves nor for what is in them.
fn find_fieldless(
    object: &Map<String, Value>,
    path: &mut Vec<String>,
    fields: &[FormField],
    found: &mut Vec<(String, String)>,
) {
    for (name, value) in object {
        path.push(name.clone());
        let has_field = fields.iter().any(|field| field.path == *path);
        let has_fields_inside = fields.iter().any(|field| field.path.starts_with(path));
        match value {
            _ if has_field => {}
            Value::Object(inner) if has_fields_inside && !inner.is_empty() => {
                find_fieldless(inner, path, fields, found);
            }
            value => found.push((path.join("."), value.to_string())),
        }
        path.pop();
    }
}

/// Sets a member of an object, or of objects in it.
pub(super) fn set_member(object: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [name] => _ = object.insert(name.clone(), value),
        [name, rest @ ..] => {
            let inner = object.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            // Something else was given for the object.
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            if let Value::Object(inner) = inner {
                set_member(inner, rest, value);
            }
        }
    }
}

/// Removes a member, and objects that are empty without it.
fn remove_member(object: &mut Map<String, Value>, path: &[String]) {
    match path {
        [] => {}
        [name] => _ = object.remove(name),
        [name, rest @ ..] => {
            if let Some(Value::Object(inner)) = object.get_mut(name) {
                let was_empty = inner.is_empty();
                remove_member(inner, rest);
                if inner.is_empty() && !was_empty {
                    object.remove(name);
                }
            }
        }
    }
}

fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_of_nested_objects_are_set_and_removed() {
        let path = |text: &str| text.split('.').map(String::from).collect::<Vec<_>>();
        let Value::Object(mut object) = json!({"kept": {"x": 1}, "wrong": "text"}) else { unreachable!() };
        set_member(&mut object, &path("a.b.c"), json!(1));
        set_member(&mut object, &path("a.d"), json!(2));
        set_member(&mut object, &path("wrong.e"), json!(3));
        let all = json!({"kept": {"x": 1}, "a": {"b": {"c": 1}, "d": 2}, "wrong": {"e": 3}});
        assert_eq!(Value::Object(object.clone()), all);
        for gone in ["a.b.c", "a.d", "wrong.e", "kept.y", "none.x"] {
            remove_member(&mut object, &path(gone));
        }
        assert_eq!(Value::Object(object), json!({"kept": {"x": 1}}));
    }
}
