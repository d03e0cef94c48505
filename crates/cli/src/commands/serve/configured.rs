//! Reads `[serve]` of the user's own file.

use bowline::config::ServeSettings;

use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// Returns how hosts are to be served. With a mistake in it nobody is: hosts could be let in whom it was
/// meant to keep out, and whoever has set limits relies on them.
pub(super) fn read(settings: &Settings) -> Outcome<ServeSettings> {
    let layers = settings.layers()?;
    let problems: Vec<_> = layers.serve_problems().cloned().collect();
    if problems.is_empty() {
        Ok(layers.serve())
    } else {
        Err(Failure::config("it is not clear how hosts are to be served", problems))
    }
}
