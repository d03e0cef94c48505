//! Describes why the files of a project or their records are not safe from others.

/// A file that others could change or could have put where it is.
#[cfg_attr(not(unix), expect(dead_code, reason = "owners are not looked at there"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exposure {
    /// What is wrong, as a sentence.
    pub(crate) problem: String,
    pub(crate) fix: String,
}
