//! Owns whether what a model wants to call a tool with is what the tool takes.

use bowline_proto::wire::Json;
use serde_json::Value;

use super::{ModelContext, ModelTool};
use crate::schema::{Schema, Verdict, Violation};

impl ModelContext {
    /// The arguments as the server knows them, or what is wrong with them, to be told to the model.
    ///
    /// Checked against the tool's own schema, not the one that the model saw. Members that the model knows
    /// by another name get theirs back. A schema that cannot be used stops nothing: the server checks too.
    pub fn check_arguments(&self, name: &str, arguments: &Json) -> Result<Json, Vec<Violation>> {
        let Some(tool) = self.resolve(name) else {
            return Err(whole("there is no tool of that name"));
        };
        tool.check_arguments(arguments)
    }
}

impl ModelTool {
    /// [`ModelContext::check_arguments`], where the tool is known.
    pub fn check_arguments(&self, arguments: &Json) -> Result<Json, Vec<Violation>> {
        // A model that has nothing to say says so in one of two ways.
        if arguments.is_null() {
            return self.check_arguments(&Json::empty_object());
        }
        let Ok(arguments) = arguments.decode::<Value>() else {
            return Err(whole("the arguments are nested too deeply"));
        };
        if !arguments.is_object() {
            return Err(whole("the arguments must be an object"));
        }
        let arguments = self.keys.meant(arguments);
        let schema = self.schema.get_or_init(|| Schema::compile(&self.tool.input_schema).ok());
        let verdict = schema.as_ref().map_or(Verdict::Fits, |schema| schema.verdict_of(&arguments));
        match verdict {
            Verdict::Fits | Verdict::Unchecked(_) => {
                Ok(Json::of(&arguments).expect("a tree of JSON is JSON"))
            }
            Verdict::Misfits(violations) => Err(violations),
        }
    }
}

fn whole(what: &str) -> Vec<Violation> {
    vec![Violation { at: String::new(), what: what.to_owned() }]
}
