//! Edits one line of text.

use super::key::Key;
use crate::print::escape;
use crate::print::text_width::display_width;

/// A line of text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LineEditor {
    chars: Vec<char>,
    cursor: usize,
}

/// Longest line; further input is dropped.
const MAX_LINE_CHARS: usize = 16 * 1024;

impl LineEditor {
    /// Creates a line with this text and the cursor at its end.
    pub(super) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().take(MAX_LINE_CHARS).collect();
        Self { cursor: chars.len(), chars }
    }

    pub(super) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Returns the text before the cursor.
    pub(super) fn text_before_cursor(&self) -> String {
        self.chars[..self.cursor].iter().collect()
    }

    /// Replaces the last `count` characters before the cursor.
    pub(super) fn replace_before_cursor(&mut self, count: usize, text: &str) {
        let begin = self.cursor.saturating_sub(count);
        self.chars.drain(begin..self.cursor);
        self.cursor = begin;
        text.chars().for_each(|c| self.insert(c));
    }

    /// Handles a key, and returns whether the line used it.
    pub(super) fn handle_key(&mut self, key: &Key) -> bool {
        match key {
            Key::Char(typed) => self.insert(*typed),
            // Copied text often ends with a line end, and a line holds none.
            Key::Paste(text) => text.trim_end().chars().for_each(|c| self.insert(c)),
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            Key::Delete if self.cursor < self.chars.len() => {
                self.chars.remove(self.cursor);
            }
            Key::Backspace | Key::Delete => {}
            Key::CutWord => {
                let before = &self.chars[..self.cursor];
                let end = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
                let begin = before[..end].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
                self.chars.drain(begin..self.cursor);
                self.cursor = begin;
            }
            Key::CutLine => {
                self.chars.drain(..self.cursor);
                self.cursor = 0;
            }
            Key::CutRest => self.chars.truncate(self.cursor),
            Key::WordLeft => {
                let before = &self.chars[..self.cursor];
                let end = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
                self.cursor = before[..end].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
            }
            Key::WordRight => {
                let after = &self.chars[self.cursor..];
                let begin = after.iter().position(|c| !c.is_whitespace()).unwrap_or(after.len());
                let length = after[begin..].iter().position(|c| c.is_whitespace());
                self.cursor += length.map_or(after.len(), |length| begin + length);
            }
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.chars.len(),
            _ => return false,
        }
        true
    }

    fn insert(&mut self, typed: char) {
        let typed = if typed.is_whitespace() { ' ' } else { typed };
        if self.chars.len() < MAX_LINE_CHARS && !escape::is_active(typed) {
            self.chars.insert(self.cursor, typed);
            self.cursor += 1;
        }
    }

    /// Returns the part around the cursor that fits, and the cursor's column in it.
    pub(super) fn window(&self, columns: usize) -> (String, usize) {
        let shown = |c: &char| escape::line(c.encode_utf8(&mut [0; 4])).into_owned();
        // The cursor itself needs one column.
        let columns = columns.saturating_sub(1).max(1);
        let mut before = String::new();
        let mut column = 0;
        for c in self.chars[..self.cursor].iter().rev() {
            let next = shown(c);
            if column + display_width(&next) > columns {
                break;
            }
            column += display_width(&next);
            before.insert_str(0, &next);
        }
        let mut used = column;
        for c in &self.chars[self.cursor..] {
            let next = shown(c);
            if used + display_width(&next) > columns {
                break;
            }
            used += display_width(&next);
            before.push_str(&next);
        }
        (before, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &mut LineEditor, keys: &[Key]) -> String {
        for key in keys {
            assert!(line.handle_key(key), "{key:?}");
        }
        line.text()
    }

    #[test]
    fn a_line_is_edited_in_the_middle() {
        let mut line = LineEditor::new("knots are fun");
        assert_eq!(typed(&mut line, &[Key::CutWord, Key::Char('o'), Key::Char('k')]), "knots are ok");
        assert_eq!(typed(&mut line, &[Key::Home, Key::Delete, Key::Char('K')]), "Knots are ok");
        assert_eq!(typed(&mut line, &[Key::Right, Key::Backspace, Key::Left, Key::Backspace]), "Kots are ok");
        assert_eq!(typed(&mut line, &[Key::End, Key::CutWord, Key::CutWord]), "Kots ");
        assert_eq!(typed(&mut line, &[Key::CutLine, Key::CutWord, Key::Backspace, Key::Delete]), "");
        let mut line = LineEditor::new("one  two three");
        assert_eq!(typed(&mut line, &[Key::WordLeft, Key::WordLeft, Key::Char('X')]), "one  Xtwo three");
        assert_eq!(line.text_before_cursor(), "one  X");
        assert_eq!(typed(&mut line, &[Key::WordRight, Key::CutRest, Key::WordRight]), "one  Xtwo");
        line.replace_before_cursor(4, "2");
        assert_eq!((line.text(), line.text_before_cursor()), ("one  2".to_owned(), "one  2".to_owned()));
        assert!(!line.handle_key(&Key::Enter) && !line.handle_key(&Key::Up));
    }

    #[test]
    fn what_is_pasted_is_one_harmless_line() {
        let mut line = LineEditor::default();
        let pasted = Key::Paste("a\nb\tc\x1b[2J\u{202e}d\r\n".to_owned());
        assert_eq!(typed(&mut line, &[pasted]), "a b c[2Jd");
        let endless = Key::Paste("x".repeat(MAX_LINE_CHARS * 2));
        assert_eq!(typed(&mut line, &[endless]).chars().count(), MAX_LINE_CHARS);
    }

    #[test]
    fn the_window_follows_the_cursor() {
        let mut line = LineEditor::new("abcdefgh");
        assert_eq!(line.window(20), ("abcdefgh".to_owned(), 8));
        assert_eq!(line.window(5), ("efgh".to_owned(), 4));
        line.handle_key(&Key::Home);
        assert_eq!(line.window(5), ("abcd".to_owned(), 0));
        // A server's default is shown escaped, and kept unchanged.
        let line = LineEditor::new("a\x1bb");
        assert_eq!(line.window(20).0, "a\\u{1b}b");
        assert_eq!(line.text(), "a\x1bb");
    }
}
