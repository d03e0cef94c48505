//! [`TraceContext`]: trace context in the W3C formats, as it is sent in `_meta`.
// OT-01

use std::fmt;

/// The trace that a request belongs to. It is always valid by the W3C formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    parent: TraceParent,
    state: Option<Box<str>>,
    baggage: Option<Box<str>>,
}

/// The value of `traceparent`: `00-<trace id>-<span id>-<flags>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceContext {
    /// Parses a `traceparent`. `None` if it is malformed or names no trace.
    pub fn parse(traceparent: &str) -> Option<Self> {
        Some(Self { parent: TraceParent::parse(traceparent)?, state: None, baggage: None })
    }

    /// Creates a context from the ids of a tracing library. `None` if the trace or the span id is
    /// zero, which W3C forbids.
    pub fn new(trace: u128, span: u64, sampled: bool) -> Option<Self> {
        let parent = TraceParent { trace, span, flags: u8::from(sampled) };
        parent.is_valid().then_some(Self { parent, state: None, baggage: None })
    }

    /// Sets `tracestate`, which holds vendor data. A value that is not a valid header value is left
    /// out.
    #[must_use]
    pub fn state(mut self, tracestate: &str) -> Self {
        self.state = parse_header_value(tracestate);
        self
    }

    /// Sets `baggage`. It is sent to the server unchanged, so it must hold nothing that the server
    /// may not know.
    #[must_use]
    pub fn baggage(mut self, baggage: &str) -> Self {
        self.baggage = parse_header_value(baggage);
        self
    }

    /// Creates a child context with this span id in the same trace. It does not inherit the
    /// baggage, which is not ours to pass on.
    // OT-02
    #[must_use]
    pub fn child(&self, span: u64) -> Self {
        let span = if span == 0 { 1 } else { span };
        Self { parent: TraceParent { span, ..self.parent }, state: self.state.clone(), baggage: None }
    }

    /// The members of `_meta` that carry this context, in order.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, String)> {
        let parent = (TRACEPARENT, self.parent.to_string());
        let state = self.state.as_deref().map(|state| (TRACESTATE, state.to_owned()));
        let baggage = self.baggage.as_deref().map(|baggage| (BAGGAGE, baggage.to_owned()));
        [Some(parent), state, baggage].into_iter().flatten()
    }
}

impl TraceParent {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let version = parse_hex(parts.next()?, 2)?;
        let (trace, span, flags) =
            (parse_hex(parts.next()?, 32)?, parse_hex(parts.next()?, 16)?, parse_hex(parts.next()?, 2)?);
        // Later versions may add parts; version 0 may not, and version 255 is invalid.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let parent = Self { trace, span: u64::try_from(span).ok()?, flags: u8::try_from(flags).ok()? };
        parent.is_valid().then_some(parent)
    }

    fn is_valid(self) -> bool {
        self.trace != 0 && self.span != 0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// Parses exactly `digits` hexadecimal digits in lower case.
fn parse_hex(text: &str, digits: usize) -> Option<u128> {
    let fits = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    fits.then(|| u128::from_str_radix(text, 16).ok())?
}

/// Accepts a printable ASCII header value of at most [`MAX_VALUE_LEN`] bytes.
fn parse_header_value(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    let fits =
        (1..=MAX_VALUE_LEN).contains(&text.len()) && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    fits.then(|| text.into())
}

/// The key of the trace parent in `_meta`. The specification exempts it from the prefix rule.
pub const TRACEPARENT: &str = "traceparent";
/// The key of the trace state in `_meta`. See [`TRACEPARENT`].
pub const TRACESTATE: &str = "tracestate";
/// The key of the baggage in `_meta`. See [`TRACEPARENT`].
pub const BAGGAGE: &str = "baggage";

/// Maximum length of a value: what W3C requires for `baggage`, and more than for `tracestate`.
const MAX_VALUE_LEN: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn members(context: &TraceContext) -> Vec<(&'static str, String)> {
        context.members().collect()
    }

    /// OT-01: a context is written in the W3C format.
    #[test]
    fn ot_01_a_context_is_written_as_it_was_read() {
        let context = TraceContext::parse(PARENT).unwrap().state("vendor=1").baggage("user=7");
        assert_eq!(
            members(&context),
            [
                (TRACEPARENT, PARENT.to_owned()),
                (TRACESTATE, "vendor=1".to_owned()),
                (BAGGAGE, "user=7".to_owned())
            ]
        );
        let made = TraceContext::new(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7, true);
        assert_eq!(made.unwrap(), TraceContext::parse(PARENT).unwrap());
    }

    /// OT-02: a child has a new span in the same trace, and no baggage.
    #[test]
    fn ot_02_a_child_keeps_the_trace_only() {
        let child = TraceContext::parse(PARENT).unwrap().state("vendor=1").baggage("user=7").child(255);
        assert_eq!(
            members(&child),
            [
                (TRACEPARENT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000ff-01".to_owned()),
                (TRACESTATE, "vendor=1".to_owned())
            ]
        );
    }

    /// OT-02: malformed values are dropped.
    #[test]
    fn ot_02_what_is_no_context_is_none() {
        for bad in [
            "",
            "00",
            "00-0-0-00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-011",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
        // The known parts of a later version are read.
        assert!(TraceContext::parse(&format!("cc{}-new", &PARENT[2..])).is_some());
        let context =
            TraceContext::parse(PARENT).unwrap().state("a\nb").baggage(&"x".repeat(MAX_VALUE_LEN + 1));
        assert_eq!(members(&context).len(), 1);
    }
}
