//! What a call asks of the server.

use std::sync::Arc;

use bowline_proto::wire::{Json, mirror};

use super::meter::CallMeter;
use crate::connection::options::CallOptions;

/// The method, params and options of a call, and what is counted of it.
#[derive(Clone, Copy)]
pub(crate) struct CallRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a Json>,
    pub(crate) options: &'a CallOptions,
    pub(crate) meter: &'a CallMeter,
}

/// Describes one of our requests for a person: its method and the name in it.
pub(crate) fn describe_request(method: &str, params: Option<&Json>) -> Arc<str> {
    let named = mirror::name_param(method).and_then(|member| params?.member(member)?.decode::<String>().ok());
    match named {
        Some(name) => format!("{method} {}", name.chars().take(MAX_NAME_CHARS).collect::<String>()).into(),
        None => method.into(),
    }
}

/// Maximum length of a name that is shown to a person.
const MAX_NAME_CHARS: usize = 200;
