//! Owns the filling of placeholders in string values.
//!
//! | written | becomes |
//! |---|---|
//! | `${VAR}`, `${env:VAR}`, `{env:VAR}` | the variable; an error when it is not set |
//! | `${VAR:-text}`, `{env:VAR:-text}` | the variable, or `text` when it is not set or empty |
//! | `{file:path}` | the file's text without trailing line breaks |
//! | `$${` | `${`, literally |
//!
//! What is filled in is never read again, so a value cannot smuggle in a placeholder of its own,
//! and nothing that looks like a placeholder is ever passed on because it could not be filled.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::problem::ProblemKind;
use crate::report::Finding;

/// Fills placeholders from an environment.
#[derive(Clone, Copy)]
pub(crate) struct Filler<'a> {
    env: &'a dyn Environment,
    /// The folder that relative paths start from.
    folder: &'a Path,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(env: &'a dyn Environment, source: &'a Path) -> Self {
        let folder = source.parent().unwrap_or(Path::new(""));
        Self { env, folder }
    }

    /// Returns `text` with every placeholder filled, or everything that prevents it.
    pub(crate) fn expand(self, text: &str) -> Result<String, Vec<Finding>> {
        let mut filled = String::with_capacity(text.len());
        let mut findings = Vec::new();
        let mut rest = text;
        while let Some((at, opening)) = PlaceholderStart::find(rest) {
            filled.push_str(&rest[..at]);
            rest = &rest[at + opening.text().len()..];
            if opening == PlaceholderStart::Escaped {
                filled.push_str("${");
                continue;
            }
            let Some((body, after)) = rest.split_once('}') else {
                let message = format!("a placeholder opened with `{}` is not closed", opening.text());
                findings.push(Finding::new(ProblemKind::Unresolved, message).hint(LITERAL_HINT));
                break;
            };
            rest = after;
            let value = match opening {
                PlaceholderStart::Escaped => unreachable!("handled above"),
                PlaceholderStart::Dollar => self.fill_dollar(body),
                PlaceholderStart::Env => self.fill_variable(body),
                PlaceholderStart::File => self.fill_file(body),
            };
            match value {
                Ok(value) => filled.push_str(&value),
                Err(finding) => findings.push(finding),
            }
        }
        filled.push_str(rest);
        if findings.is_empty() { Ok(filled) } else { Err(findings) }
    }

    /// Returns the value of a variable, if it is set.
    pub(crate) fn var(self, name: &str) -> Option<String> {
        self.env.var(name)
    }

    /// Resolves a path against the home folder or the folder of the source.
    pub(crate) fn resolve_path(self, path: &str) -> PathBuf {
        let home = || self.env.var("HOME").or_else(|| self.env.var("USERPROFILE"));
        if let Some(inside) = path.strip_prefix("~/").or(path.strip_prefix("~\\"))
            && let Some(home) = home()
        {
            return Path::new(&home).join(inside);
        }
        self.folder.join(path)
    }

    fn fill_dollar(self, body: &str) -> Result<String, Finding> {
        if body.starts_with("input:") {
            let message = "`${input:…}` asks a person for the value, which only an editor can do";
            return Err(Finding::new(ProblemKind::Unresolved, message)
                .hint("put the value into an environment variable and write `${VAR}`"));
        }
        self.fill_variable(body.strip_prefix("env:").unwrap_or(body))
    }

    fn fill_variable(self, body: &str) -> Result<String, Finding> {
        let (name, default) = match body.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (body, None),
        };
        // The body is not shown: it may be a default, and that may be a secret.
        if !is_variable_name(name) {
            let message =
                "a placeholder that is not one of `${VAR}`, `${VAR:-default}`, `{env:VAR}` and `{file:path}`";
            return Err(Finding::new(ProblemKind::Unresolved, message).hint(LITERAL_HINT));
        }
        if default.is_some_and(|default| PlaceholderStart::find(default).is_some()) {
            let message = format!("the default of `{name}` has a placeholder in it");
            return Err(Finding::new(ProblemKind::Unresolved, message)
                .hint("placeholders do not nest; set the variable instead"));
        }
        match (self.env.var(name), default) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(_)) if !value.is_empty() => Ok(value),
            (_, Some(default)) => Ok(default.to_owned()),
            (None, None) => {
                let message = format!("environment variable `{name}` is not set");
                let hint = if EDITOR_VARIABLES.contains(&name) {
                    format!("only an editor knows `{name}`; write the value out")
                } else {
                    format!("set it, or give a default: `${{{name}:-value}}`")
                };
                Err(Finding::new(ProblemKind::Unresolved, message).hint(hint))
            }
        }
    }

    fn fill_file(self, path: &str) -> Result<String, Finding> {
        let path = path.trim();
        if path.is_empty() {
            let message = "`{file:}` names no file";
            return Err(Finding::new(ProblemKind::Unresolved, message));
        }
        match self.env.read_file(&self.resolve_path(path)) {
            Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(reason) => {
                let message = format!("cannot read the file `{path}`: {reason}");
                Err(Finding::new(ProblemKind::Unresolved, message))
            }
        }
    }
}

/// A variable or file that a placeholder refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference<'t> {
    /// A variable, by its name.
    Variable(&'t str),
    /// A file, by its path as it is written.
    File(&'t str),
}

/// A placeholder in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder<'t> {
    /// Where it is in the text, in bytes.
    pub range: Range<usize>,
    /// The variable that it names; `None` if it names a file, or cannot be filled.
    pub variable: Option<&'t str>,
    /// Whether it has a value for when the variable is not set.
    pub has_default: bool,
    opening: PlaceholderStart,
    body: &'t str,
}

/// Lists the placeholders of a text, in order. Nothing is filled in or read.
pub fn find_placeholders(text: &str) -> Vec<Placeholder<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((offset, opening)) = PlaceholderStart::find(&text[at..]) {
        let begin = at + offset;
        at = begin + opening.text().len();
        if opening == PlaceholderStart::Escaped {
            continue;
        }
        let Some(length) = text[at..].find('}') else { break };
        let body = &text[at..at + length];
        at += length + 1;
        let named = if opening == PlaceholderStart::Dollar {
            body.strip_prefix("env:").unwrap_or(body)
        } else {
            body
        };
        let (name, has_default) = named.split_once(":-").map_or((named, false), |(name, _)| (name, true));
        let variable = Some(name).filter(|name| opening != PlaceholderStart::File && is_variable_name(name));
        found.push(Placeholder { range: begin..at, variable, has_default, opening, body });
    }
    found
}

/// Writes a text so that it is taken literally. `None` if it has `{env:` or `{file:` in it, which cannot
/// be written literally.
pub fn escape_placeholders(text: &str) -> Option<String> {
    let is_literal =
        [PlaceholderStart::Env, PlaceholderStart::File].iter().all(|opening| !text.contains(opening.text()));
    is_literal.then(|| text.replace(PlaceholderStart::Dollar.text(), PlaceholderStart::Escaped.text()))
}

/// Lists what filling `text` would read, in order, without reading anything.
pub(crate) fn find_references(text: &str) -> Vec<Reference<'_>> {
    let references =
        find_placeholders(text).into_iter().filter_map(|placeholder| match placeholder.opening {
            PlaceholderStart::File => Some(Reference::File(placeholder.body.trim())),
            _ => placeholder.variable.map(Reference::Variable),
        });
    references.collect()
}

/// How a placeholder, or the escape of one, begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceholderStart {
    Escaped,
    Dollar,
    Env,
    File,
}

impl PlaceholderStart {
    /// All openings. The escape comes first because it contains the second one.
    const ALL: [Self; 4] = [Self::Escaped, Self::Dollar, Self::Env, Self::File];

    const fn text(self) -> &'static str {
        match self {
            Self::Escaped => "$${",
            Self::Dollar => "${",
            Self::Env => "{env:",
            Self::File => "{file:",
        }
    }

    /// Finds the first opening in `text` and its offset.
    fn find(text: &str) -> Option<(usize, Self)> {
        text.match_indices(['$', '{']).find_map(|(at, _)| {
            let opening = Self::ALL.into_iter().find(|opening| text[at..].starts_with(opening.text()))?;
            Some((at, opening))
        })
    }
}

/// Whether this is a variable name: letters, digits and `_`; `.` for variables of editors, and
/// parentheses for `ProgramFiles(x86)`.
fn is_variable_name(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"_.()".contains(&byte);
    name.bytes().all(inside)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
}

const LITERAL_HINT: &str = "write `$${` for a literal `${`";

const EDITOR_VARIABLES: [&str; 5] =
    ["pathSeparator", "userHome", "workspaceFolder", "workspaceFolderBasename", "workspaceRoot"];

#[cfg(test)]
mod tests;
