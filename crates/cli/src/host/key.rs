//! Owns what a key means, whichever way the terminal sends it.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Something that the person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Typed.
    Char(char),
    /// Pasted: its line ends are not presses of Enter.
    Paste(String),
    Enter,
    /// Dismisses.
    Escape,
    /// Ctrl-C.
    Interrupt,
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
    /// Takes away the word before the cursor.
    CutWord,
    /// Takes away what is before the cursor.
    CutLine,
    /// The window has another size.
    Resized,
}

impl Key {
    /// None for what means nothing here, such as a key that is let go.
    pub(super) fn of(event: Event) -> Option<Self> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => Self::pressed(key),
            Event::Paste(text) => Some(Self::Paste(text)),
            Event::Resize(..) => Some(Self::Resized),
            _ => None,
        }
    }

    fn pressed(key: KeyEvent) -> Option<Self> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Self::Interrupt),
                // The end of what is typed: there will be no answer.
                KeyCode::Char('d') => Some(Self::Escape),
                KeyCode::Char('a') => Some(Self::Home),
                KeyCode::Char('e') => Some(Self::End),
                KeyCode::Char('h') => Some(Self::Backspace),
                KeyCode::Char('w') => Some(Self::CutWord),
                KeyCode::Char('u') => Some(Self::CutLine),
                KeyCode::Char('n') => Some(Self::Down),
                KeyCode::Char('p') => Some(Self::Up),
                _ => None,
            };
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
