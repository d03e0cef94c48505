//! Asks the person at the terminal: forms, menus, approvals, logins, passphrases.
//!
//! [`Dialogs`] is the only way in. Dialogs are state machines: keys change them and frames show
//! them. Only `terminal` reads keys and draws, so dialogs are tested without a terminal, and no
//! other module of the command knows the terminal library.

mod argument_form;
mod browser;
mod elicitation;
mod field;
mod foreign_login_host;
mod form;
mod form_field;
mod frame;
mod item_editor;
mod key;
mod line_editor;
mod login_prompt;
mod menu;
mod passphrase;
mod prepared_answers;
mod prompt_line;
mod query;
mod question;
mod sampling_approval;
mod stdin_line;
mod suggestion_list;
mod terminal;
mod url_elicitation;
mod yes_no;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anstyle::Style;
use bowline::config::{ElicitationPolicy, Environment, Secret};
use bowline::host::Elicit;
use bowline::sampling::Approve;
use bowline::types::ElicitResult;
use serde_json::{Map, Value};

pub(crate) use argument_form::{ArgumentContent, ArgumentForm, ArgumentProblem};
pub(crate) use browser::BrowserAccess;
pub(crate) use form_field::{FieldInput, FormField, ValueField};
pub(crate) use login_prompt::TerminalLoginPrompt;
pub(crate) use prepared_answers::PreparedAnswers;
pub(crate) use prompt_line::{PromptHistory, PromptInput};
pub(crate) use query::Query;

use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::print::{FAINT, NAME, Printer, STRONG};
use browser::Browser;
use elicitation::ElicitationHandler;
use form::FormDialog;
use frame::{Row, WrapOptions, wrap_text};
use menu::MenuItem;
use prompt_line::PromptDialog;
use question::{ChoiceDialog, TextDialog};
use sampling_approval::SamplingApprover;
use terminal::{NoAnswer, Terminal, TerminalUnavailable, dialog_size};
use yes_no::YesNoDialog;

/// The person at the terminal, if there is one. Clones share the terminal, which shows one dialog
/// at a time.
///
/// Dialogs can report an interrupt, and have to be dismissed when the session ends.
#[derive(Clone)]
pub(crate) struct Dialogs {
    terminal: Result<Arc<Terminal>, TerminalUnavailable>,
    browser: Browser,
    printer: Printer,
}

/// A question that is answered by yes or no.
pub(crate) struct ConfirmQuestion<'a> {
    pub(crate) text: &'a str,
    pub(crate) yes: &'static str,
    pub(crate) no: &'static str,
    /// Start of the error message if nobody can be asked.
    pub(crate) unasked_message: String,
    /// Hint of that error.
    pub(crate) unasked_hint: &'static str,
}

/// A question for a value. Its texts may come from a server.
pub(crate) struct ValueQuestion<'a> {
    /// What the value is for.
    pub(crate) text: &'a str,
    pub(crate) label: &'a str,
    /// A value that can be taken as it is. It is not used for a secret.
    pub(crate) default: &'a str,
    /// Whether what is typed is not shown.
    pub(crate) is_secret: bool,
}

impl Dialogs {
    /// Opens the terminal of this process, and finds the browser that `BROWSER` names.
    pub(crate) fn open(printer: &Printer, env: &dyn Environment) -> Self {
        Self {
            terminal: Terminal::open(printer.dumb, printer.stderr_has_color()).map(Arc::new),
            browser: Browser::new(env::non_empty_var(env, env::BROWSER).as_deref()),
            printer: printer.clone(),
        }
    }

    /// Returns whether there is a person to ask, even if the terminal can only print.
    pub(crate) fn has_person(&self) -> bool {
        !matches!(self.terminal, Err(TerminalUnavailable::NoTerminal))
    }

    /// Returns why no question can be asked, as a phrase that follows `as`; `None` if one can.
    pub(crate) fn unavailable_reason(&self) -> Option<&'static str> {
        self.terminal.as_ref().err().map(|absent| absent.reason())
    }

    /// Waits for Ctrl-C in a dialog, where it is a key and not a signal.
    pub(crate) async fn interrupted(&self) {
        match &self.terminal {
            Ok(terminal) => terminal.interrupted().await,
            Err(_) => std::future::pending().await,
        }
    }

    /// Dismisses the current dialog, and waits until the terminal is restored.
    pub(crate) async fn dismiss(&self) {
        if let Ok(terminal) = &self.terminal {
            terminal.dismiss().await;
        }
    }

    /// Dismisses the current dialog and those that wait. Others can follow.
    pub(crate) async fn dismiss_current(&self) {
        if let Ok(terminal) = &self.terminal {
            terminal.dismiss_current().await;
        }
    }

    /// Asks for the arguments of a call. `suggest` is asked for suggestions, if there are any to be had. `None`
    /// means that the person gave up, or that nobody can be asked.
    ///
    /// Ctrl-C is for the caller, who waits for [`Dialogs::interrupted`].
    pub(crate) async fn ask_arguments<F: Future<Output = Vec<String>>>(
        &self,
        form: ArgumentForm<'_>,
        suggest: Option<impl Fn(Query) -> F>,
    ) -> Option<Map<String, Value>> {
        let Ok(terminal) = &self.terminal else { return None };
        let ArgumentForm { server, name, about, fields, content } = form;
        let columns = dialog_size().columns;
        let mut heading =
            vec![Row::new(STRONG, "? ").with(NAME, server).with(STRONG, " needs more for ").with(NAME, name)];
        if let Some(about) = about {
            heading.extend(wrap_text(
                FAINT,
                &about,
                WrapOptions { columns, indent: 4, max_rows: MAX_ABOUT_ROWS },
            ));
        }
        let dialog = FormDialog::for_arguments(fields, content, suggest.is_some());
        let answer = match suggest {
            Some(suggest) => terminal.ask_with_suggestions(&heading, dialog, suggest).await,
            None => terminal.ask(&heading, dialog).await,
        };
        match answer {
            Ok(ElicitResult::Accept(Some(arguments))) => arguments.decode().ok(),
            Ok(_) | Err(NoAnswer) => None,
        }
    }

    /// Reads a line at a prompt. `None` means that the terminal is gone, or that nobody can be asked.
    ///
    /// Ctrl-C clears the line.
    pub(crate) async fn read_command<F: Future<Output = Vec<String>>>(
        &self,
        prompt: &str,
        history: &PromptHistory,
        suggest: impl Fn(Query) -> F,
    ) -> Option<PromptInput> {
        let Ok(terminal) = &self.terminal else { return None };
        let input = terminal.prompt(PromptDialog::new(prompt, history), suggest).await.ok()?;
        // The line stays on the screen, unlike the dialog.
        let line = match &input {
            PromptInput::Line(line) => line.as_str(),
            PromptInput::End => "",
        };
        terminal.print_rows(&[Row::whole(NAME, prompt).with(Style::new(), line)]);
        Some(input)
    }

    /// Returns a handler that asks the person what a server elicits, as far as `policy` allows.
    pub(crate) fn elicitation_handler(
        &self,
        policy: ElicitationPolicy,
        answers: PreparedAnswers,
    ) -> impl Elicit + use<> {
        ElicitationHandler {
            policy,
            terminal: self.terminal.clone(),
            answers,
            browser: self.browser.clone(),
            printer: self.printer.clone(),
        }
    }

    /// Returns an approver that asks the person about sampling.
    pub(crate) fn sampling_approver(&self) -> impl Approve + use<> {
        SamplingApprover::new(self.terminal.clone(), self.printer.clone())
    }

    /// Returns a prompt that asks the person to log in.
    pub(crate) fn login_prompt(&self, browser_access: BrowserAccess) -> TerminalLoginPrompt {
        TerminalLoginPrompt {
            terminal: self.terminal.clone(),
            browser: self.browser.clone(),
            browser_access,
            printer: self.printer.clone(),
        }
    }

    /// Asks for a passphrase, twice if it is `new`.
    pub(crate) async fn ask_passphrase(&self, new: bool) -> Outcome<Secret> {
        let elsewhere = format!("set {}, or use --passphrase-file", env::PASSPHRASE);
        let terminal = match &self.terminal {
            Ok(terminal) => terminal,
            Err(absent) => {
                let message = format!("there is no passphrase, as {}", absent.reason());
                return Err(Failure::usage_hint(message, elsewhere));
            }
        };
        let answer = until_interrupted(terminal, passphrase::ask_passphrase(terminal, new)).await?;
        answer.ok().flatten().ok_or_else(|| Failure::usage_hint("there is no passphrase", elsewhere))
    }

    /// Asks for a value that is not shown. Fails with the message and a hint if there is none.
    pub(crate) async fn ask_secret(&self, label: &str, message: String, hint: String) -> Outcome<Secret> {
        let terminal = match &self.terminal {
            Ok(terminal) => terminal,
            Err(absent) => {
                return Err(Failure::usage_hint(format!("{message}, and {}", absent.reason()), hint));
            }
        };
        let answer = until_interrupted(terminal, passphrase::ask_secret(terminal, &[], label)).await?;
        answer.ok().flatten().ok_or_else(|| Failure::usage_hint(message, hint))
    }

    /// Asks for a value. `None` means that the person gave up, or that nobody can be asked.
    pub(crate) async fn ask_value(&self, question: ValueQuestion<'_>) -> Outcome<Option<Secret>> {
        let Ok(terminal) = &self.terminal else { return Ok(None) };
        let heading = [Row::whole(Style::new(), question.text)];
        if question.is_secret {
            let asking = passphrase::ask_secret(terminal, &heading, question.label);
            return Ok(until_interrupted(terminal, asking).await?.ok().flatten());
        }
        let dialog = TextDialog::new(question.label, question.default);
        let answer = until_interrupted(terminal, terminal.ask(&heading, dialog)).await?;
        Ok(answer.ok().flatten().map(Secret::new))
    }

    /// Has the person choose one of several items, each with a title and less important text. `None`
    /// means that the person gave up, or that nobody can be asked.
    pub(crate) async fn choose(
        &self,
        text: &str,
        items: impl IntoIterator<Item = (String, String)>,
        preselected: usize,
    ) -> Outcome<Option<usize>> {
        let Ok(terminal) = &self.terminal else { return Ok(None) };
        let items = items.into_iter().map(|(title, more)| MenuItem::new(title).more(more));
        let dialog = ChoiceDialog::new(items.collect(), preselected);
        let heading = [Row::whole(Style::new(), text)];
        Ok(until_interrupted(terminal, terminal.ask(&heading, dialog)).await?.ok().flatten())
    }

    /// Asks a question whose default is no. Fails with a hint if nobody can be asked.
    pub(crate) async fn confirm(&self, question: ConfirmQuestion<'_>) -> Outcome<bool> {
        let terminal = match &self.terminal {
            Ok(terminal) => terminal,
            Err(absent) => {
                let message = format!("{}, as {}", question.unasked_message, absent.reason());
                return Err(Failure::usage_hint(message, question.unasked_hint));
            }
        };
        let (yes, no) = (MenuItem::new(question.yes), MenuItem::new(question.no));
        let heading = [Row::whole(Style::new(), question.text)];
        let dialog = YesNoDialog::new(yes, no, "enter chooses, esc says no");
        Ok(until_interrupted(terminal, terminal.ask(&heading, dialog)).await?.unwrap_or(false))
    }
}

/// How many rows of a description are shown above a form.
const MAX_ABOUT_ROWS: usize = 6;

/// Waits for an answer, or fails if a signal or Ctrl-C ends the dialog.
async fn until_interrupted<T>(
    terminal: &Terminal,
    asking: impl Future<Output = Result<T, NoAnswer>>,
) -> Outcome<Result<T, NoAnswer>> {
    let mut interrupt = Interrupt::listen();
    tokio::select! {
        answer = asking => Ok(answer),
        exit = interrupt.next() => {
            terminal.dismiss().await;
            Err(Failure::Signal(exit))
        }
        () = terminal.interrupted() => Err(Failure::Signal(Exit::Interrupted)),
    }
}

/// Checks that a new passphrase is strong enough, wherever it comes from.
pub(crate) fn check_passphrase(passphrase: &str) -> Outcome<()> {
    passphrase::check_strength(passphrase).map_err(|why| Failure::usage(format!("the passphrase: {why}")))
}
