//! [`AcceptedFormats`]: which formats of a response the `Accept` header allows.

/// The formats in which a host accepts a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedFormats {
    /// Whether it accepts `application/json`.
    pub json: bool,
    /// Whether it accepts `text/event-stream`.
    pub event_stream: bool,
}

impl AcceptedFormats {
    /// Reads the values of all `Accept` headers. Without any, everything is accepted.
    ///
    /// The specification requires hosts to name both formats. Many do not, and are served anyway.
    // HT-01
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut ranges = values.into_iter().flat_map(|value| value.split(',')).peekable();
        let mut accepted = Self { json: false, event_stream: false };
        if ranges.peek().is_none() {
            return Self { json: true, event_stream: true };
        }
        for range in ranges {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            if parts.any(is_zero_weight) {
                continue;
            }
            accepted.json |= matches!(&*media, "*/*" | "application/*" | "application/json");
            accepted.event_stream |= matches!(&*media, "*/*" | "text/*" | "text/event-stream");
        }
        accepted
    }
}

/// Whether a parameter says that the format is not accepted.
fn is_zero_weight(parameter: &str) -> bool {
    let weight = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
    weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_allow_formats() {
        for (values, json, event_stream) in [
            (&[][..], true, true),
            (&["application/json, text/event-stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["*/*"], true, true),
            (&["text/*"], false, true),
            (&["application/*;q=0.5"], true, false),
            (&["Application/JSON; charset=utf-8"], true, false),
            (&["text/event-stream"], false, true),
            (&["text/event-stream;q=0, */*;q=0.0"], false, false),
            (&["text/html"], false, false),
            (&[""], false, false),
        ] {
            let accepted = AcceptedFormats::parse(values.iter().copied());
            assert_eq!(accepted, AcceptedFormats { json, event_stream }, "{values:?}");
        }
    }
}
