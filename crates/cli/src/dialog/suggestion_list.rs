//! Shows suggestions for what is being typed, and completes it by them.

use super::frame::{Frame, Row};
use crate::print::FAINT;

/// The suggestions for the text of one field.
#[derive(Debug, Default)]
pub(super) struct SuggestionList {
    /// Whether anybody can be asked for suggestions.
    is_enabled: bool,
    /// The field and the text that suggestions were last asked for.
    asked: Option<(String, String)>,
    values: Vec<String>,
}

/// How many suggestions are shown.
const MAX_ROWS: usize = 8;

impl SuggestionList {
    pub(super) fn new(is_enabled: bool) -> Self {
        Self { is_enabled, ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        self.asked = None;
        self.values.clear();
    }

    pub(super) fn set(&mut self, values: Vec<String>) {
        self.values = values;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns whether suggestions are to be asked for this text, and remembers that they were.
    pub(super) fn is_news(&mut self, field: &str, text: &str) -> bool {
        let now = (field.to_owned(), text.to_owned());
        self.is_enabled && self.asked.replace(now.clone()).as_ref() != Some(&now)
    }

    /// Returns a longer text: what all suggestions that begin with `text` have in common, or else the first.
    /// `None` if there is nothing to complete.
    pub(super) fn complete(&self, text: &str) -> Option<String> {
        let fitting: Vec<&String> = self.values.iter().filter(|value| value.starts_with(text)).collect();
        let common = common_prefix(fitting.iter().map(|value| value.as_str()));
        if common.len() > text.len() {
            return Some(common.to_owned());
        }
        fitting.into_iter().find(|value| **value != text).cloned()
    }

    pub(super) fn draw(&self, picture: &mut Frame, max_rows: usize) {
        let most = max_rows.min(MAX_ROWS);
        let shown = if self.values.len() > most { most.saturating_sub(1) } else { self.values.len() };
        for value in &self.values[..shown] {
            picture.push_row(Row::new(FAINT, "      ").with(FAINT, value));
        }
        if shown < self.values.len() {
            picture.push_row(Row::new(FAINT, &format!("      … {} more", self.values.len() - shown)));
        }
    }
}

/// Returns the beginning that all texts have in common.
pub(super) fn common_prefix<'a>(texts: impl IntoIterator<Item = &'a str>) -> &'a str {
    let mut texts = texts.into_iter();
    let Some(first) = texts.next() else { return "" };
    texts.fold(first, |common, text| {
        let same = common.char_indices().zip(text.chars()).find(|((_, a), b)| a != b);
        let end = same.map_or(common.len().min(text.len()), |((at, _), _)| at);
        &common[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_completed_as_far_as_suggestions_agree() {
        let mut list = SuggestionList::new(true);
        list.set(["Norway", "Northumbria", "Nepal"].map(String::from).into());
        for (text, longer) in [
            ("No", Some("Nor")),
            ("Nor", Some("Norway")),
            ("Ne", Some("Nepal")),
            ("X", None),
            ("Nepal", None),
        ] {
            assert_eq!(list.complete(text).as_deref(), longer, "{text}");
        }
        assert!(list.is_news("a", "x") && !list.is_news("a", "x") && list.is_news("b", "x"));
        assert!(!SuggestionList::default().is_news("a", "x"));
    }

    #[test]
    fn a_common_beginning_ends_between_characters() {
        assert_eq!(common_prefix(["größer", "groß"]), "gr");
        assert_eq!(common_prefix(["größe", "größer"]), "größe");
        assert_eq!(common_prefix(["a"]), "a");
        assert_eq!(common_prefix([]), "");
    }
}
