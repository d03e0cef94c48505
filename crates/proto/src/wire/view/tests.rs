//! Tests of the views, one file per area. `hostile` has input that no server should send.

mod hostile;
mod input_requests;
mod lifecycle;
mod lists;
mod results;

use super::*;
use crate::wire::Json;

fn json(text: impl AsRef<str>) -> Json {
    Json::parse(text.as_ref().to_owned()).unwrap()
}

/// The reasons of dropped elements, as text.
fn reasons(dropped: &[DroppedElement]) -> Vec<String> {
    dropped.iter().map(|dropped| dropped.reason.to_string()).collect()
}
