//! Translates terminal events to keys.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key press or another action of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A typed character.
    Char(char),
    /// Pasted text: its line ends are not presses of Enter.
    Paste(String),
    Enter,
    /// Dismisses the dialog.
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D: there is no more input.
    EndOfInput,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    Backspace,
    Delete,
    /// Deletes the word before the cursor.
    CutWord,
    /// Deletes everything before the cursor.
    CutLine,
    /// Deletes everything after the cursor.
    CutRest,
    /// Moves to the beginning of the word.
    WordLeft,
    /// Moves to the end of the word.
    WordRight,
    /// Clears the screen.
    ClearScreen,
    /// The window was resized.
    Resized,
}

impl Key {
    /// Converts an event, or returns `None` if it has no meaning here, such as a key release.
    pub(super) fn from_event(event: Event) -> Option<Self> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => Self::from_key_event(key),
            Event::Paste(text) => Some(Self::Paste(text)),
            Event::Resize(..) => Some(Self::Resized),
            _ => None,
        }
    }

    fn from_key_event(key: KeyEvent) -> Option<Self> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Self::Interrupt),
                KeyCode::Char('d') => Some(Self::EndOfInput),
                // Enter, if it was pressed before the terminal was in raw mode.
                KeyCode::Char('j') => Some(Self::Enter),
                KeyCode::Char('a') => Some(Self::Home),
                KeyCode::Char('e') => Some(Self::End),
                KeyCode::Char('h') => Some(Self::Backspace),
                KeyCode::Char('w') => Some(Self::CutWord),
                KeyCode::Char('u') => Some(Self::CutLine),
                KeyCode::Char('k') => Some(Self::CutRest),
                KeyCode::Char('l') => Some(Self::ClearScreen),
                KeyCode::Char('b') => Some(Self::Left),
                KeyCode::Char('f') => Some(Self::Right),
                KeyCode::Left => Some(Self::WordLeft),
                KeyCode::Right => Some(Self::WordRight),
                KeyCode::Char('n') => Some(Self::Down),
                KeyCode::Char('p') => Some(Self::Up),
                _ => None,
            };
        }
        if key.modifiers.contains(KeyModifiers::ALT) {
            match key.code {
                KeyCode::Char('b') | KeyCode::Left => return Some(Self::WordLeft),
                KeyCode::Char('f') | KeyCode::Right => return Some(Self::WordRight),
                KeyCode::Backspace => return Some(Self::CutWord),
                _ => {}
            }
        }
        match key.code {
            KeyCode::Char(typed) => Some(Self::Char(typed)),
            KeyCode::Enter => Some(Self::Enter),
            KeyCode::Esc => Some(Self::Escape),
            KeyCode::Tab => Some(Self::Tab),
            KeyCode::BackTab => Some(Self::BackTab),
            KeyCode::Up => Some(Self::Up),
            KeyCode::Down => Some(Self::Down),
            KeyCode::Left => Some(Self::Left),
            KeyCode::Right => Some(Self::Right),
            KeyCode::Home => Some(Self::Home),
            KeyCode::End => Some(Self::End),
            KeyCode::Backspace => Some(Self::Backspace),
            KeyCode::Delete => Some(Self::Delete),
            _ => None,
        }
    }
}
