//! Lets the person choose one or several items of a list.

use anstyle::Style;

use super::frame::Row;
use super::key::Key;
use crate::print::{FAINT, NAME};

/// A list of items with a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Menu {
    items: Vec<MenuItem>,
    /// Position of the cursor.
    pub(super) at: usize,
    kind: Kind,
}

/// An item of the list. Its texts may come from a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MenuItem {
    pub(super) title: String,
    /// Less important text beside the title.
    pub(super) more: String,
    chosen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Single,
    Multiple,
}

impl MenuItem {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    #[must_use]
    pub(super) fn more(self, more: impl Into<String>) -> Self {
        Self { more: more.into(), ..self }
    }

    #[must_use]
    pub(super) fn chosen(self, chosen: bool) -> Self {
        Self { chosen, ..self }
    }
}

impl Menu {
    /// Creates a list of which the item at the cursor is chosen.
    pub(super) fn single_choice(items: Vec<MenuItem>, at: usize) -> Self {
        Self { at: at.min(items.len().saturating_sub(1)), items, kind: Kind::Single }
    }

    /// Creates a list of which each item is chosen or not.
    pub(super) fn multi_choice(items: Vec<MenuItem>) -> Self {
        Self { items, at: 0, kind: Kind::Multiple }
    }

    /// Whether the cursor is at the last item.
    pub(super) fn is_at_end(&self) -> bool {
        self.at + 1 == self.items.len()
    }

    /// Returns the chosen items of a list with several choices.
    pub(super) fn chosen(&self) -> impl Iterator<Item = usize> {
        self.items.iter().enumerate().filter(|(_, item)| item.chosen).map(|(at, _)| at)
    }

    /// Handles a key, and returns whether the list used it.
    pub(super) fn handle_key(&mut self, key: &Key) -> bool {
        let count = self.items.len().max(1);
        match key {
            Key::Up => self.at = (self.at + count - 1) % count,
            Key::Down => self.at = (self.at + 1) % count,
            Key::Home => self.at = 0,
            Key::End => self.at = count - 1,
            Key::Char(' ') if self.kind == Kind::Multiple => {
                if let Some(item) = self.items.get_mut(self.at) {
                    item.chosen = !item.chosen;
                }
            }
            Key::Char(typed) => self.jump_to(*typed),
            _ => return false,
        }
        true
    }

    /// Moves to the next item that begins with this character.
    fn jump_to(&mut self, typed: char) {
        let begins = |item: &MenuItem| {
            let first = item.title.trim_start().chars().next();
            first.is_some_and(|first| first.to_lowercase().eq(typed.to_lowercase()))
        };
        let count = self.items.len();
        let found = (1..=count).map(|step| (self.at + step) % count).find(|at| begins(&self.items[*at]));
        self.at = found.unwrap_or(self.at);
    }

    /// Returns at most `max_rows` rows, including the one at the cursor.
    pub(super) fn rows(&self, max_rows: usize) -> Vec<Row> {
        let most = max_rows.clamp(3, self.items.len().max(3));
        let first = self.at.saturating_sub(most / 2).min(self.items.len().saturating_sub(most));
        let shown = self.items.iter().enumerate().skip(first).take(most);
        let last = first + most;
        let row = |(at, item): (usize, &MenuItem)| {
            let here = at == self.at;
            let hidden = (at == first && first > 0) || (at + 1 == last && last < self.items.len());
            // A marker, also for those who see no colors.
            let edge = if here {
                "> "
            } else if hidden {
                "… "
            } else {
                "  "
            };
            let mark = match (self.kind, item.chosen) {
                (Kind::Single, _) => "",
                (Kind::Multiple, true) => "[x] ",
                (Kind::Multiple, false) => "[ ] ",
            };
            let style = if here { NAME } else { Style::new() };
            let row = Row::new(style, &format!("  {edge}{mark}")).with(style, &item.title);
            if item.more.is_empty() { row } else { row.with(FAINT, "  ").with(FAINT, &item.more) }
        };
        shown.map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(titles: &[&str]) -> Vec<MenuItem> {
        titles.iter().map(|title| MenuItem::new(*title)).collect()
    }

    fn plain(menu: &Menu, most: usize) -> Vec<String> {
        menu.rows(most).iter().map(|row| row.to_plain(40)).collect()
    }

    #[test]
    fn the_cursor_goes_round_and_jumps() {
        let mut menu = Menu::single_choice(items(&["Red", "Green", "Blue", "black"]), 9);
        assert_eq!(menu.at, 3);
        for (key, at) in [
            (Key::Down, 0),
            (Key::Up, 3),
            (Key::Home, 0),
            (Key::Char('b'), 2),
            (Key::Char('B'), 3),
            (Key::Char('z'), 3),
        ] {
            assert!(menu.handle_key(&key));
            assert_eq!(menu.at, at, "{key:?}");
        }
        assert!(!menu.handle_key(&Key::Enter));
    }

    #[test]
    fn some_are_chosen() {
        let mut menu =
            Menu::multi_choice(vec![MenuItem::new("a"), MenuItem::new("b").chosen(true), MenuItem::new("c")]);
        menu.handle_key(&Key::Char(' '));
        menu.handle_key(&Key::Down);
        menu.handle_key(&Key::Char(' '));
        assert_eq!(menu.chosen().collect::<Vec<_>>(), [0]);
        assert_eq!(plain(&menu, 9), ["    [x] a", "  > [ ] b", "    [ ] c"]);
    }

    #[test]
    fn a_long_list_scrolls() {
        let titles: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let items: Vec<MenuItem> = titles.iter().map(MenuItem::new).collect();
        let menu = |at| Menu::single_choice(items.clone(), at);
        assert_eq!(plain(&menu(0), 4), ["  > 0", "    1", "    2", "  … 3"]);
        assert_eq!(plain(&menu(50), 4), ["  … 48", "    49", "  > 50", "  … 51"]);
        assert_eq!(plain(&menu(99), 4), ["  … 96", "    97", "    98", "  > 99"]);
    }

    #[test]
    fn an_empty_list_is_no_trouble() {
        let mut menu = Menu::multi_choice(Vec::new());
        for key in [Key::Down, Key::Up, Key::Char(' '), Key::Char('a'), Key::End] {
            menu.handle_key(&key);
        }
        assert!(menu.rows(9).is_empty());
    }
}
