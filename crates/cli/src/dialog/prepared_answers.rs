//! Fills in forms from `--answer FIELD=VALUE`. The answers are used only where they fit, and
//! nothing is invented for missing fields.

use bowline::Json;
use bowline::types::{ElicitResult, Form};
use bowline_proto::form;
use bowline_proto::wire::object::Edit;

use crate::arguments::split_pair;
use crate::failure::{Failure, Outcome};

/// Values by field, in the order they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreparedAnswers(Vec<(String, String)>);

impl PreparedAnswers {
    /// Parses the options. Errors do not quote the values, which may be private.
    pub(crate) fn parse(typed: &[String]) -> Outcome<Self> {
        let mut answers: Vec<(String, String)> = Vec::new();
        for pair in typed {
            let Some((field, value)) = split_pair(pair) else {
                let message = "an --answer has no field and `=` before its value";
                return Err(Failure::usage_hint(message, "write --answer FIELD=VALUE"));
            };
            if answers.iter().any(|(other, _)| other == field) {
                let message = format!("`{field}` is answered twice");
                return Err(Failure::usage_hint(message, format!("write --answer {field}=… once")));
            }
            answers.push((field.to_owned(), value.to_owned()));
        }
        Ok(Self(answers))
    }

    /// Returns the valid values for the fields of this form, and the problems of the others.
    pub(super) fn values_for(&self, form: &Form) -> (Vec<(String, Json)>, Vec<String>) {
        let (mut fit, mut wrong) = (Vec::new(), Vec::new());
        for (name, typed) in &self.0 {
            let Some(field) = form.fields.iter().find(|field| *field.name == **name) else { continue };
            match form::parse_field(field, typed) {
                Ok(value) => fit.push((name.clone(), value)),
                Err(why) => wrong.push(format!("{name} {why}")),
            }
        }
        (fit, wrong)
    }

    /// Fills in the form without asking, from these answers and its defaults. Fails if no answer is
    /// for this form or a required field is missing.
    pub(super) fn fill_form(&self, form: &Form) -> Result<ElicitResult, Vec<String>> {
        let (values, wrong) = self.values_for(form);
        if !wrong.is_empty() || values.is_empty() {
            return Err(wrong);
        }
        let given = values.iter().fold(Edit::new(), |edit, (name, value)| edit.set(name, value));
        let given = given.apply(None).unwrap_or_else(|_| Json::empty_object());
        let content = form::fill_defaults(form, &given);
        match form::check_form(form, &content) {
            Ok(()) => Ok(ElicitResult::Accept(Some(content))),
            Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
        }
    }
}
