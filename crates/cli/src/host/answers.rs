//! Owns answers that were given beforehand: `--answer FIELD=VALUE`. They are the person's own words, and are
//! used only where they fit; nothing is made up for what they leave open.

use bowline::form;
use bowline::view::{Answer, Form};
use bowline::wire::Json;
use bowline::wire::object::Edit;

use crate::failure::{Failure, Outcome};

/// By field, in the order of typing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers(Vec<(String, String)>);

impl Answers {
    /// Reads what was typed. The values are not repeated in an error: they may be private.
    pub(super) fn parse(typed: &[String]) -> Outcome<Self> {
        let mut answers: Vec<(String, String)> = Vec::new();
        for pair in typed {
            let Some((field, value)) = pair.split_once('=').filter(|(field, _)| !field.is_empty()) else {
                return Err(Failure::usage("the form is --answer FIELD=VALUE"));
            };
            if answers.iter().any(|(other, _)| other == field) {
                return Err(Failure::usage(format!("`{field}` is answered twice")));
            }
            answers.push((field.to_owned(), value.to_owned()));
        }
        Ok(Self(answers))
    }

    /// Those that this form asks for, as values that fit it; and what is wrong with the others.
    pub(super) fn values(&self, form: &Form) -> (Vec<(String, Json)>, Vec<String>) {
        let (mut fit, mut wrong) = (Vec::new(), Vec::new());
        for (name, typed) in &self.0 {
            let Some(field) = form.fields.iter().find(|field| *field.name == **name) else { continue };
            match form::parse(field, typed) {
                Ok(value) => fit.push((name.clone(), value)),
                Err(why) => wrong.push(format!("{name} {why}")),
            }
        }
        (fit, wrong)
    }

    /// The form filled in without anybody being asked: with these answers and its own defaults, if at least
    /// one of them is meant for it, and nothing that it needs is left open.
    pub(super) fn fill(&self, form: &Form) -> Result<Answer, Vec<String>> {
        let (values, wrong) = self.values(form);
        if !wrong.is_empty() || values.is_empty() {
            return Err(wrong);
        }
        let given = values.iter().fold(Edit::new(), |edit, (name, value)| edit.set(name, value));
        let given = given.apply(None).unwrap_or_else(|_| Json::empty_object());
        let content = form::complete(form, &given);
        match form::check(form, &content) {
            Ok(()) => Ok(Answer::Accept(Some(content))),
            Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
        }
    }
}
