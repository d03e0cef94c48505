//! The protocol state that calls share with the driver.

pub(super) mod progress_tokens;
