//! Owns how a problem of a configuration is presented: where it is, what is wrong, and what to do
//! about it.

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "files")]
use crate::keys::KeyTable as _;
#[cfg(feature = "files")]
use crate::raw::RawFile;

/// One thing that is wrong with a configuration, or, among [`Config::notes`](crate::Config::notes),
/// one thing worth knowing about it. No text in it ever holds a configured or resolved value of a
/// header, an environment entry, an argument or a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file, as [`Source::path`](crate::Source::path) named it.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Dotted path of the key, such as `servers.github.headers.Authorization`; empty when the
    /// text could not be read as far as a key.
    pub key: String,
    /// The server entry it belongs to, if it belongs to one.
    pub server: Option<String>,
    /// What sort of problem it is, for programs.
    pub kind: ProblemKind,
    /// What is wrong, for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What sort of problem was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The text is not TOML or JSON.
    Syntax,
    /// A key that means nothing here.
    UnknownKey,
    /// A key given twice.
    DuplicateKey,
    /// A key that is needed and absent.
    MissingKey,
    /// Keys that exclude each other.
    Conflict,
    /// A value of the wrong type.
    WrongType,
    /// A value of the right type that cannot be used.
    InvalidValue,
    /// A placeholder that could not be filled.
    Unresolved,
    /// Something well-formed that cannot be served.
    Unsupported,
    /// Only in notes: something that was read and has no effect.
    Ignored,
    /// Only in notes: something that was read in the likeliest way, and may have another meaning.
    Doubtful,
    /// Only in notes: a server of a host whose name no server here can have, and which is used under another.
    Renamed,
}

#[cfg(feature = "files")]
impl Problem {
    /// Creates a problem of a file as a whole.
    pub fn of_file(file: PathBuf, kind: ProblemKind, message: String, hint: String) -> Self {
        Self { file, line: 1, column: 1, key: String::new(), server: None, kind, message, hint: Some(hint) }
    }

    /// Whether it leaves the store unknown: something is wrong with `[store]`, or the text could
    /// not be read that far. [`Config::store`](crate::Config::store) is then `None`, which must not
    /// be taken for the default: logins would be looked for, and stored, in the wrong place.
    pub fn hides_store_config(&self) -> bool {
        self.hides_table("store")
    }

    /// Whether it leaves unknown how hosts are to be served: something is wrong with `[serve]`, or the
    /// text could not be read that far. [`Config::serve`](crate::Config::serve) is then empty, which
    /// must not be taken for the default: a gateway could let in whom it should not.
    pub fn hides_serve_config(&self) -> bool {
        self.hides_table("serve")
    }

    fn hides_table(&self, name: &str) -> bool {
        let Self { key, kind, server, .. } = self;
        let table = key.split_once('.').map_or(&**key, |(table, _)| table);
        // A misspelled table such as `[stor]` hides it as well.
        let misspelled = *kind == ProblemKind::UnknownKey && RawFile::suggest(key) == Some(name);
        server.is_none() && (key.is_empty() || table == name || misspelled)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file.display(), self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a configuration, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    problems: Vec<Problem>,
}

impl Errors {
    /// Collects problems, such as those of several files. `None` when there is nothing to report.
    pub fn from_problems(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self { problems })
    }

    /// The problems, in the order of the file.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

impl IntoIterator for Errors {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.problems.into_iter()
    }
}
