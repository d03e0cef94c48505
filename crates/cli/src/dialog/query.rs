//! [`Query`]: what a dialog wants to be suggested while a person types.

use std::collections::BTreeMap;

/// What has been typed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// The field that is being typed. Empty for a line that has no fields.
    pub(crate) field: String,
    /// The text of the field, or of the line up to the cursor.
    pub(crate) text: String,
    /// The texts of the other fields that are filled in.
    pub(crate) context: BTreeMap<String, String>,
}
