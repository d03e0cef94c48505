//! Trace context in the W3C formats, as it travels in `_meta` (OT-01).

use std::fmt;

/// The trace that a request belongs to. What does not fit the formats cannot be made into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    parent: Parent,
    state: Option<Box<str>>,
    baggage: Option<Box<str>>,
}

/// `traceparent`: `00-<trace id>-<span id>-<flags>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceContext {
    /// Reads a `traceparent`. `None` if it is not one, or names no trace.
    pub fn parse(traceparent: &str) -> Option<Self> {
        Some(Self { parent: Parent::parse(traceparent)?, state: None, baggage: None })
    }

    /// Made of the parts that a tracing library has. `None` if the trace or the span is zero, which is none.
    pub fn new(trace: u128, span: u64, sampled: bool) -> Option<Self> {
        let parent = Parent { trace, span, flags: u8::from(sampled) };
        parent.is_one().then_some(Self { parent, state: None, baggage: None })
    }

    /// With `tracestate`, which belongs to the vendors of a trace. One that is no header value is left out.
    #[must_use]
    pub fn state(mut self, tracestate: &str) -> Self {
        self.state = travels(tracestate);
        self
    }

    /// With `baggage`: it goes to the server as it is, so put nothing there that the server may not know.
    #[must_use]
    pub fn baggage(mut self, baggage: &str) -> Self {
        self.baggage = travels(baggage);
        self
    }

    /// The same trace, one span further. What is not ours to give away stays behind (OT-02).
    #[must_use]
    pub fn child(&self, span: u64) -> Self {
        let span = if span == 0 { 1 } else { span };
        Self { parent: Parent { span, ..self.parent }, state: self.state.clone(), baggage: None }
    }

    /// The trace's id.
    pub fn trace_id(&self) -> u128 {
        self.parent.trace
    }

    /// The members of `_meta`, in order.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, String)> {
        let parent = (TRACEPARENT, self.parent.to_string());
        let state = self.state.as_deref().map(|state| (TRACESTATE, state.to_owned()));
        let baggage = self.baggage.as_deref().map(|baggage| (BAGGAGE, baggage.to_owned()));
        [Some(parent), state, baggage].into_iter().flatten()
    }
}

impl Parent {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let (trace, span, flags) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?, hex(parts.next()?, 2)?);
        // Later versions may add parts; the first may not, and 255 is none.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let parent = Self { trace, span: u64::try_from(span).ok()?, flags: u8::try_from(flags).ok()? };
        parent.is_one().then_some(parent)
    }

    fn is_one(self) -> bool {
        self.trace != 0 && self.span != 0
    }
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// Exactly so many digits, in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let fits = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    fits.then(|| u128::from_str_radix(text, 16).ok())?
}

/// A header value of a sane length.
fn travels(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    fits.then(|| text.into())
}

/// The keys in `_meta`, without a prefix by the specification's own exception.
pub const TRACEPARENT: &str = "traceparent";
/// See [`TRACEPARENT`].
pub const TRACESTATE: &str = "tracestate";
/// See [`TRACEPARENT`].
pub const BAGGAGE: &str = "baggage";

/// What W3C asks everybody to pass on of `baggage`, and more than it asks of `tracestate`.
const LONGEST: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn members(context: &TraceContext) -> Vec<(&'static str, String)> {
        context.members().collect()
    }

    /// OT-01: what goes out has the W3C form.
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

    /// OT-02: a new span of the same trace; baggage stays behind.
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
        // A later version is read as far as it is known.
        assert!(TraceContext::parse(&format!("cc{}-new", &PARENT[2..])).is_some());
        let context = TraceContext::parse(PARENT).unwrap().state("a\nb").baggage(&"x".repeat(LONGEST + 1));
        assert_eq!(members(&context).len(), 1);
    }
}
