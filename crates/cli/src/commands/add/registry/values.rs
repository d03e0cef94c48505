//! Finds the values that a server of a registry takes: given on the command line, asked for, or the server's own
//! defaults. What a registry says is written literally, so that it cannot name variables or files of the user.

use std::collections::BTreeMap;

use bowline_config::{escape_placeholders, find_placeholders};

use super::description::{Input, shorten};
use crate::args::RegistryArgs;
use crate::dialog::{Dialogs, ValueQuestion};
use crate::exit::Exit;
use crate::failure::{Fact, Failure, Outcome, Report};
use crate::suggested_command::shell_quote;

/// A text of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryText {
    /// As it is written into the file.
    pub(super) written: String,
    /// As it is shown, without what is secret.
    pub(super) shown: String,
}

/// Where values come from.
pub(super) struct ValueSource {
    /// The name of the server in the registry.
    server: String,
    dialogs: Dialogs,
    /// Names and values of `--arg`, and whether each was used.
    given: Vec<(String, String, bool)>,
    /// What `--arg` can set.
    known: Vec<String>,
    /// What is required and not given, where nobody can be asked.
    missing: Vec<MissingValue>,
    /// Options for values that were left out.
    optional: Vec<String>,
}

struct MissingValue {
    option: String,
    description: String,
}

/// A value that is wanted.
pub(super) struct WantedValue<'a> {
    pub(super) input: &'a Input,
    pub(super) label: &'a str,
    /// The option that sets it.
    pub(super) option: String,
    pub(super) is_required: bool,
}

impl ValueSource {
    pub(super) fn new(server: &str, options: &RegistryArgs, dialogs: Dialogs) -> Outcome<Self> {
        let given = options.arguments.iter().map(|argument| match argument.split_once('=') {
            Some((name, value)) => Ok((name.trim_start_matches('-').to_owned(), value.to_owned(), false)),
            None => Err(Failure::usage("the form is --arg NAME=VALUE")),
        });
        Ok(Self {
            server: server.to_owned(),
            dialogs,
            given: given.collect::<Outcome<_>>()?,
            known: Vec::new(),
            missing: Vec::new(),
            optional: Vec::new(),
        })
    }

    /// The values of `--arg` with this name.
    pub(super) fn take_given(&mut self, name: &str) -> Vec<String> {
        self.known.push(name.to_owned());
        let of_name = self.given.iter_mut().filter(|(given, ..)| given == name);
        let values = of_name.map(|(_, value, is_used)| {
            *is_used = true;
            value.clone()
        });
        values.collect()
    }

    /// The value of an input: its own, or one that is asked for. `None` if it is left out.
    pub(super) async fn find(&mut self, wanted: WantedValue<'_>) -> Outcome<Option<EntryText>> {
        match &wanted.input.value {
            Some(template) => {
                self.fill_template(
                    template,
                    &wanted.input.variables,
                    wanted.is_required,
                    wanted.input.is_secret,
                )
                .await
            }
            None => self.ask(wanted).await,
        }
    }

    /// A template with its variables in braces replaced. Braces around anything else stay. `None` if a variable is
    /// left out.
    pub(super) async fn fill_template(
        &mut self,
        template: &str,
        variables: &BTreeMap<String, Input>,
        is_required: bool,
        is_secret: bool,
    ) -> Outcome<Option<EntryText>> {
        let mut values: BTreeMap<&str, Option<TemplatePart>> = BTreeMap::new();
        let mut parts = Vec::new();
        for segment in split_template(template, variables) {
            let name = match segment {
                Segment::Literal(text) => {
                    parts.push(Some(TemplatePart::literal(text)));
                    continue;
                }
                Segment::Variable(name) => name,
            };
            if !values.contains_key(name) {
                let value = self.find_variable(name, &variables[name], is_required, is_secret).await?;
                values.insert(name, value);
            }
            parts.push(values[name].clone());
        }
        let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        join_parts(&parts).map(Some).ok_or_else(|| self.unwritable(template))
    }

    async fn find_variable(
        &mut self,
        name: &str,
        variable: &Input,
        is_required: bool,
        is_secret: bool,
    ) -> Outcome<Option<TemplatePart>> {
        if let Some(value) = self.take_given(name).pop() {
            check_choice(name, &value, variable)?;
            let shown = if variable.is_secret || is_secret { masked(name) } else { value.clone() };
            return Ok(Some(TemplatePart { text: value, shown, is_literal: false }));
        }
        let input = Input { is_secret: variable.is_secret || is_secret, ..variable.clone() };
        let wanted = WantedValue {
            input: &input,
            label: name,
            option: format!("--arg {name}=VALUE"),
            is_required: is_required || variable.is_required,
        };
        let text = self.ask_text(wanted).await?;
        Ok(text.map(|(text, shown)| TemplatePart { text, shown, is_literal: true }))
    }

    async fn ask(&mut self, wanted: WantedValue<'_>) -> Outcome<Option<EntryText>> {
        let label = wanted.label.to_owned();
        let Some((text, shown)) = self.ask_text(wanted).await? else { return Ok(None) };
        let written = escape_placeholders(&text).ok_or_else(|| self.unwritable(&label))?;
        Ok(Some(EntryText { written, shown }))
    }

    /// The value as it was typed or as the registry has it, and how it is shown.
    async fn ask_text(&mut self, wanted: WantedValue<'_>) -> Outcome<Option<(String, String)>> {
        let WantedValue { input, label, option, is_required } = wanted;
        let default = input.default.clone().or_else(|| input.value.clone()).filter(|text| !text.is_empty());
        if is_required && self.dialogs.unavailable_reason().is_none() {
            let typed = self.ask_person(input, label, default.as_deref().unwrap_or_default()).await?;
            let typed = typed.ok_or_else(|| {
                let message = format!("`{}` needs {label}, so nothing was added", self.server);
                Failure::usage_hint(message, format!("give it with {option}"))
            })?;
            let shown = if input.is_secret { masked(label) } else { typed.clone() };
            return Ok(Some((typed, shown)));
        }
        if let Some(default) = default {
            return Ok(Some((default.clone(), default)));
        }
        if is_required {
            let description = input.description.as_deref().map(shorten).unwrap_or_default();
            self.missing.push(MissingValue { option, description });
        } else {
            self.optional.push(option);
        }
        Ok(None)
    }

    async fn ask_person(&self, input: &Input, label: &str, default: &str) -> Outcome<Option<String>> {
        let text = match input.description.as_deref().map(shorten).filter(|text| !text.is_empty()) {
            Some(description) => format!("? {label}: {description}"),
            None => format!("? `{}` needs {label}", self.server),
        };
        if !input.choices.is_empty() {
            let at = input.choices.iter().position(|choice| choice == default).unwrap_or(0);
            let items = input.choices.iter().map(|choice| (choice.clone(), String::new()));
            let chosen = self.dialogs.choose(&text, items, at).await?;
            return Ok(chosen.map(|at| input.choices[at].clone()));
        }
        let question = ValueQuestion { text: &text, label, default, is_secret: input.is_secret };
        Ok(self.dialogs.ask_value(question).await?.map(|typed| typed.expose().to_owned()))
    }

    /// Fails if something is missing, or if `--arg` names what the server does not take. Returns the options for
    /// what was left out.
    pub(super) fn finish(self) -> Outcome<Vec<String>> {
        if let Some((name, ..)) = self.given.iter().find(|(_, _, is_used)| !is_used) {
            let message = format!("`{}` takes no argument `{name}`", self.server);
            if self.known.is_empty() {
                return Err(Failure::usage(message));
            }
            return Err(Failure::usage_hint(message, format!("it takes {}", self.known.join(", "))));
        }
        if self.missing.is_empty() {
            return Ok(self.optional);
        }
        let reason = self.dialogs.unavailable_reason().unwrap_or("nobody can be asked");
        let message = format!("`{}` needs values that are not given, and {reason}", self.server);
        let mut report = Report::new(Exit::Usage, message);
        let lines = self.missing.iter().map(|value| match &*value.description {
            "" => value.option.clone(),
            description => format!("{}: {description}", value.option),
        });
        report.facts.push(Fact { label: "missing", lines: lines.collect() });
        let options: Vec<_> = self.missing.iter().map(|value| value.option.clone()).collect();
        report.members.insert("missing".to_owned(), options.clone().into());
        report.hint = Some(format!("add {}", options.join(" ")));
        Err(report.into())
    }

    fn unwritable(&self, what: &str) -> Failure {
        let message = format!(
            "`{}`: {} has `{{env:` or `{{file:` in it, or would name a variable",
            self.server,
            shorten(what)
        );
        Failure::usage_hint(message, "add the server by its URL or its command, and write the entry yourself")
    }
}

/// The option that sets an environment variable, a header or an argument.
pub(super) fn header_option(name: &str) -> String {
    format!("-H {}", shell_quote(&format!("{name}: VALUE")))
}

/// Fails if a value is not one of those that the server takes.
pub(super) fn check_choice(label: &str, value: &str, input: &Input) -> Outcome<()> {
    let is_placeholder = !find_placeholders(value).is_empty();
    if input.choices.is_empty() || is_placeholder || input.choices.iter().any(|choice| choice == value) {
        return Ok(());
    }
    let choices: Vec<_> = input.choices.iter().map(|choice| shorten(choice)).collect();
    Err(Failure::usage_hint(
        format!("`{value}` is not allowed for {label}"),
        format!("it takes {}", choices.join(", ")),
    ))
}

/// Stands for a secret where a command is shown.
pub(super) fn masked(label: &str) -> String {
    format!("<{label}>")
}

enum Segment<'t> {
    Literal(&'t str),
    Variable(&'t str),
}

/// Splits a template at its variables.
fn split_template<'t>(template: &'t str, variables: &BTreeMap<String, Input>) -> Vec<Segment<'t>> {
    let mut segments = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while let Some(open) = template[at..].find('{').map(|offset| at + offset) {
        at = open + 1;
        let Some(length) = template[at..].find('}') else { break };
        let name = &template[at..at + length];
        if variables.contains_key(name) {
            segments.push(Segment::Literal(&template[begin..open]));
            segments.push(Segment::Variable(name));
            at += length + 1;
            begin = at;
        }
    }
    segments.push(Segment::Literal(&template[begin..]));
    segments
}

#[derive(Clone)]
struct TemplatePart {
    text: String,
    shown: String,
    /// Whether placeholders in it are no placeholders.
    is_literal: bool,
}

impl TemplatePart {
    fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), shown: text.to_owned(), is_literal: true }
    }
}

/// Joins parts to a text of an entry. `None` if a part that is literal would become a placeholder, alone or together
/// with its neighbors.
fn join_parts(parts: &[TemplatePart]) -> Option<EntryText> {
    let mut joined = EntryText::default();
    let mut literal = String::new();
    let mut placeholders = 0;
    for part in parts {
        joined.shown.push_str(&part.shown);
        if part.is_literal {
            literal.push_str(&part.text);
            continue;
        }
        joined.written.push_str(&escape_placeholders(&std::mem::take(&mut literal))?);
        joined.written.push_str(&part.text);
        placeholders += find_placeholders(&part.text).len();
    }
    joined.written.push_str(&escape_placeholders(&literal)?);
    (find_placeholders(&joined.written).len() == placeholders).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_registry_never_becomes_a_placeholder() {
        let part =
            |text: &str, is_literal| TemplatePart { text: text.into(), shown: text.into(), is_literal };
        let written = |parts: &[TemplatePart]| join_parts(parts).map(|joined| joined.written);
        let literal = |text| part(text, true);
        let given = |text| part(text, false);
        assert_eq!(written(&[literal("Bearer "), given("${T}")]).as_deref(), Some("Bearer ${T}"));
        assert_eq!(written(&[literal("${HOME}")]).as_deref(), Some("$${HOME}"));
        assert_eq!(written(&[literal("$"), literal("{HOME}")]).as_deref(), Some("$${HOME}"));
        assert_eq!(written(&[literal("{env:HOME}")]), None);
        assert_eq!(written(&[literal("{fi"), literal("le:/etc/passwd}")]), None);
        assert_eq!(written(&[literal("$"), given("{HOME}")]), None);
        assert_eq!(written(&[given("{fi"), literal("le:/etc/passwd}")]), None);
        assert_eq!(written(&[given("$"), literal("{HOME}")]), None);
    }

    #[test]
    fn only_known_variables_are_replaced() {
        let variables = BTreeMap::from([("a".to_owned(), Input::default())]);
        let split = |template| -> Vec<String> {
            let segments = split_template(template, &variables).into_iter();
            segments
                .map(|segment| match segment {
                    Segment::Literal(text) => text.to_owned(),
                    Segment::Variable(name) => format!("<{name}>"),
                })
                .collect()
        };
        assert_eq!(split("x{a}y{b}{{a}}{"), ["x", "<a>", "y{b}{", "<a>", "}{"]);
        assert_eq!(split(""), [""]);
    }
}
