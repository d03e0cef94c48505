//! Owns the collection of findings while a text is read, and the translation of offsets into lines.

use crate::problem::{Problem, ProblemKind};
use crate::source::Source;

/// An offset in the text, with the key it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) offset: usize,
    pub(crate) key: String,
}

/// A value and the location it was written at.
#[derive(Debug, Clone)]
pub(crate) struct LocatedValue<T> {
    pub(crate) value: T,
    pub(crate) place: Location,
}

/// A problem or note that has no location yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) kind: ProblemKind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// All problems and notes found so far.
pub(crate) struct Report<'a> {
    source: &'a Source,
    /// Offset of the first byte of every line.
    lines: Vec<usize>,
    server: Option<String>,
    problems: Vec<Problem>,
    notes: Vec<Problem>,
}

/// A position in a report, to ask what was found after it.
pub(crate) struct Mark(usize);

impl Location {
    pub(crate) fn new(offset: usize, key: impl Into<String>) -> Self {
        Self { offset, key: key.into() }
    }

    /// Returns the location of the document itself.
    pub(crate) fn root() -> Self {
        Self::new(0, "")
    }

    /// Returns the location of the key `name` inside this one.
    pub(crate) fn join(&self, name: &str, offset: usize) -> Self {
        let bare = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let dot = if self.key.is_empty() { "" } else { "." };
        let key =
            if bare { format!("{}{dot}{name}", self.key) } else { format!("{}{dot}{name:?}", self.key) };
        Self { offset, key }
    }
}

impl<T> LocatedValue<T> {
    pub(crate) fn new(value: T, place: Location) -> Self {
        Self { value, place }
    }
}

impl Finding {
    pub(crate) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        let lines =
            std::iter::once(0).chain(source.body().match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { source, lines, server: None, problems: Vec::new(), notes: Vec::new() }
    }

    /// Assigns the following findings to the server `name`.
    pub(crate) fn enter_server(&mut self, name: &str) -> Mark {
        self.server = Some(name.to_owned());
        self.mark()
    }

    /// Returns the current position.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.problems.len())
    }

    /// Assigns the following findings to no server.
    pub(crate) fn leave_server(&mut self) {
        self.server = None;
    }

    /// Returns the problems found since `mark`.
    pub(crate) fn problems_since(&self, mark: &Mark) -> &[Problem] {
        &self.problems[mark.0..]
    }

    /// Turns all problems since `mark` into notes.
    pub(crate) fn downgrade_since(&mut self, mark: &Mark) {
        self.notes.extend(self.problems.drain(mark.0..));
    }

    pub(crate) fn error(&mut self, place: &Location, finding: Finding) {
        let problem = self.locate(place, finding);
        self.problems.push(problem);
    }

    pub(crate) fn note(&mut self, place: &Location, finding: Finding) {
        let note = self.locate(place, finding);
        self.notes.push(note);
    }

    /// Returns problems and notes, each in the order of the file.
    pub(crate) fn finish(mut self) -> (Vec<Problem>, Vec<Problem>) {
        self.problems.sort_by_key(|p| (p.line, p.column));
        self.notes.sort_by_key(|p| (p.line, p.column));
        (self.problems, self.notes)
    }

    fn locate(&self, place: &Location, finding: Finding) -> Problem {
        let (line, column) = self.line_and_column(place.offset);
        let Finding { kind, message, hint } = finding;
        Problem {
            file: self.source.path.clone(),
            line,
            column,
            key: place.key.clone(),
            server: self.server.clone(),
            kind,
            message,
            hint,
        }
    }

    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        // Characters, not bytes: that is what editors show.
        let column =
            self.source.body()[start..].char_indices().take_while(|(at, _)| start + at < offset).count();
        (line, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = Source::new("x.toml", "\u{feff}a\r\nbé = 1\n");
        let report = Report::new(&source);
        assert_eq!(report.line_and_column(0), (1, 1));
        assert_eq!(report.line_and_column(3), (2, 1));
        assert_eq!(report.line_and_column(6), (2, 3));
        let end = source.body().len();
        assert_eq!(report.line_and_column(end), (3, 1));
        assert_eq!(report.line_and_column(end + 9), (3, 1));
    }
}
