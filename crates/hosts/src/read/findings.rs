//! What is worth telling about an entry of a host.

/// Findings about one entry, as sentences that do not quote values.
#[derive(Default)]
pub(super) struct Findings {
    /// What is not used or was changed.
    pub(super) notes: Vec<String>,
    /// What a person has to do before the server can be used.
    pub(super) attention: Vec<String>,
    /// Why the entry cannot be used at all; the first reason counts.
    pub(super) left_out: Option<String>,
}

impl Findings {
    pub(super) fn note(&mut self, sentence: String) {
        push_new(&mut self.notes, sentence);
    }

    pub(super) fn attend(&mut self, sentence: String) {
        push_new(&mut self.attention, sentence);
    }

    pub(super) fn leave_out(&mut self, reason: String) {
        self.left_out.get_or_insert(reason);
    }
}

/// Most sentences of one kind about an entry.
const MAX_SENTENCES: usize = 20;

fn push_new(sentences: &mut Vec<String>, sentence: String) {
    if sentences.len() < MAX_SENTENCES && !sentences.contains(&sentence) {
        sentences.push(sentence);
    }
}
