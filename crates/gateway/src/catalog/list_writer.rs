//! [`ListWriter`]: writes the result of a list method.

use std::fmt::Write as _;

use bowline::Json;

use super::ListKind;

/// Writes the result of a list method, element by element: all elements of a list with other names
/// would take as much memory as the list.
pub(super) struct ListWriter {
    text: String,
    is_empty: bool,
}

/// How much longer an element of a list becomes, as a rule, by another name.
pub(super) const MAX_ADDED_BYTES: usize = 64;

impl ListWriter {
    /// Begins a list of about `size` bytes.
    pub(super) fn new(kind: ListKind, size: usize) -> Self {
        let member = match kind {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resourceTemplates",
        };
        let mut text = String::with_capacity(size + 32);
        write!(text, "{{\"{member}\":[").expect("writing to a string");
        Self { text, is_empty: true }
    }

    /// Adds an element.
    pub(super) fn push(&mut self, item: &Json) {
        if !self.is_empty {
            self.text.push(',');
        }
        self.is_empty = false;
        self.text.push_str(item.as_str());
    }

    /// Ends the list.
    pub(super) fn finish(mut self) -> Json {
        self.text.push_str("]}");
        self.text.shrink_to_fit();
        Json::parse(self.text).expect("an object of elements that are JSON")
    }
}
