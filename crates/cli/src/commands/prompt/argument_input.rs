//! Asks the person for missing prompt arguments, one line each, with the server's suggestions.
//!
//! It uses a client without handlers: while the person types answers here, the server cannot ask
//! anything itself.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anstream::ColorChoice;
use bowline::types::{Completion, PromptArgument};
use bowline::{Completer, Reference, Server};

use crate::dialog::read_line;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::print::{FAINT, NAME, Printer, escape, stderr};
use crate::session;
use crate::settings::Settings;

/// Returns whether a person can be asked.
pub(super) fn can_ask(printer: &Printer) -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !printer.is_json()
}

/// Asks for the missing arguments and adds them to `given`. Returns `false` if the input ends
/// early.
pub(super) async fn ask_missing_arguments(
    settings: &Settings,
    server: &Server,
    prompt: &str,
    missing: &[PromptArgument],
    given: &mut BTreeMap<String, String>,
) -> Outcome<bool> {
    let mut interrupt = Interrupt::listen();
    let mut server = server.clone();
    server.hooks.clear();
    // The first connection has already asked for a login if one was needed.
    let auth = settings.auth(&server);
    let client = session::client_builder(server.clone(), &settings.folders(), auth);
    let client = client.open().map_err(|error| Failure::call(&error, &server, &settings.command_line))?;
    let asking = async {
        client.ready().await.map_err(|error| Failure::call(&error, &server, &settings.command_line))?;
        // Nothing is completed while the person types, so no delay is needed.
        let completer = Completer::new(&client).pause(Duration::ZERO);
        let asked = ArgumentPrompt { printer: &settings.printer, completer, prompt };
        for argument in missing {
            let Some(value) = asked.ask_value(argument, given).await else { return Ok(false) };
            given.insert(argument.name.to_string(), value);
        }
        Ok(true)
    };
    let outcome = tokio::select! {
        outcome = asking => outcome,
        exit = interrupt.next() => Err(Failure::Signal(exit)),
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    outcome
}

/// How long closing the connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many suggestions are shown.
const MAX_SUGGESTIONS: usize = 12;

struct ArgumentPrompt<'a> {
    printer: &'a Printer,
    completer: Completer,
    prompt: &'a str,
}

impl ArgumentPrompt<'_> {
    async fn ask_value(&self, argument: &PromptArgument, given: &BTreeMap<String, String>) -> Option<String> {
        let name = escape::line(&argument.name);
        let about =
            argument.description().map(|about| format!(": {}", escape::line(&about))).unwrap_or_default();
        self.printer.write_stderr_line(&format!(
            "`{}` needs {}{about}",
            self.prompt,
            self.printer.paint_stderr(NAME, &name)
        ));
        let mut typed = String::new();
        loop {
            let found =
                self.completer.suggest(&Reference::Prompt(self.prompt), &argument.name, &typed, given).await;
            let found = found.unwrap_or_default();
            if let Some(line) = format_suggestions(&found) {
                self.printer.write_stderr_line(&self.printer.paint_stderr(FAINT, &line));
            } else if !typed.is_empty() {
                self.printer.write_stderr_line(&self.printer.paint_stderr(FAINT, "no suggestions"));
            }
            let line = loop {
                stderr::write(&format!("{name}> "), ColorChoice::Never);
                let line = read_line().await?;
                if !line.is_empty() {
                    break line;
                }
            };
            // A line that ends in `?` asks for more suggestions.
            match line.strip_suffix('?') {
                Some(begun) if !found.values.iter().any(|value| **value == *line) => {
                    begun.clone_into(&mut typed);
                }
                _ => return Some(line),
            }
        }
    }
}

/// Formats the server's suggestions on one line.
fn format_suggestions(found: &Completion) -> Option<String> {
    if found.values.is_empty() {
        return None;
    }
    let shown: Vec<_> = found.values.iter().take(MAX_SUGGESTIONS).map(|value| escape::line(value)).collect();
    let more = if found.has_more || found.values.len() > MAX_SUGGESTIONS {
        ", …; for others type a beginning and ?"
    } else {
        ""
    };
    Some(format!("suggested: {}{more}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_testkit::with;

    fn of(values: &[&str], has_more: bool) -> Option<String> {
        let values = values.iter().map(|value| (*value).into()).collect();
        format_suggestions(&with!(Completion::default(), values: values, has_more: has_more))
    }

    #[test]
    fn suggestions_fit_a_line() {
        assert_eq!(of(&[], false), None);
        assert_eq!(of(&["a", "b\u{1b}[2J\n"], false).unwrap(), "suggested: a, b\\u{1b}[2J\\n");
        assert!(of(&["a"], true).unwrap().ends_with("a, …; for others type a beginning and ?"));
        assert_eq!(of(&["x"; 100], false).unwrap().matches('x').count(), MAX_SUGGESTIONS);
    }
}
