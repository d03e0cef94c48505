//! Owns the validated form of `[elicitation]`: how a server's elicitation is answered.

use crate::words::words;

words! {
    /// How elicitations are answered. No answer ever contains anything that the person did not say.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum ElicitationPolicy {
        /// The person is asked. If nobody can be asked, the server is told that the person declines.
        #[default]
        Ask = "ask",
        /// The person is not asked, and the server is told that they decline.
        Decline = "decline",
        /// The person is not asked, and the server is told that the elicitation was canceled.
        Cancel = "cancel",
    }
}
