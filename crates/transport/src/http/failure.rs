//! Maps errors below HTTP to faults: the cause, and whether the server can have acted.

use std::error::Error;
use std::fmt::Write as _;
use std::io;

use bowline_proto::fault::{Cause, Fault, Misbehavior};
use rustls::AlertDescription;

use super::{http2_connection, tls_error};

/// A name that did not resolve. A separate type, so that it can be told from other I/O errors.
#[derive(Debug)]
pub(super) struct ResolveError(pub(super) io::Error);

impl std::fmt::Display for ResolveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for ResolveError {}

/// Maps an error of making a connection. Nothing was sent.
pub(super) fn connect_fault(error: &(dyn Error + 'static)) -> Fault {
    if let Some(error) = find_tls_error(error) {
        return Fault::before_sending(Cause::Tls).with_note(tls_error::describe(error));
    }
    let cause = if find_source::<ResolveError>(error).is_some() {
        Cause::Dns
    } else {
        match innermost_io_kind(error) {
            Some(io::ErrorKind::ConnectionRefused) => Cause::Refused,
            Some(
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof,
            ) => Cause::Cut,
            _ => Cause::Unreachable,
        }
    };
    Fault::before_sending(cause).with_note(describe_chain(error))
}

/// Maps an error of connecting to a Unix socket. Nothing was sent.
#[cfg(unix)]
pub(super) fn unix_connect_fault(error: &io::Error) -> Fault {
    match error.kind() {
        // The file is there as long as somebody listens, or longer: its absence is a closed port.
        io::ErrorKind::NotFound => Fault::before_sending(Cause::Refused).with_note("the socket is missing"),
        _ => connect_fault(error),
    }
}

/// Maps an error after the request was, or may have been, sent.
pub(super) fn exchange_fault(error: &(dyn Error + 'static)) -> Fault {
    if let Some(error) = find_tls_error(error) {
        let fault = Fault::new(Cause::Tls).with_note(tls_error::describe(error));
        // With TLS 1.3 a server checks our certificate after we have begun to send. It has not read
        // the request.
        return if refuses_handshake(error) { fault.not_executed() } else { fault };
    }
    let not_http = find_source::<hyper::Error>(error).is_some_and(hyper::Error::is_parse);
    if not_http {
        return Fault::protocol(Misbehavior::ContentType)
            .with_note(format!("not HTTP: {}", describe_chain(error)));
    }
    let fault = Fault::new(Cause::Cut).with_note(describe_chain(error));
    if http2_connection::is_unprocessed(error) { fault.not_executed() } else { fault }
}

/// Maps an error of an HTTP/2 exchange, which keeps only the kind of an I/O error and its text.
/// Only TLS has errors of this kind; the alert is lost, so nothing is said about the request.
pub(super) fn http2_exchange_fault(error: &(dyn Error + 'static)) -> Fault {
    match innermost_io_kind(error) {
        Some(io::ErrorKind::InvalidData) => Fault::new(Cause::Tls).with_note(describe_chain(error)),
        _ => exchange_fault(error),
    }
}

pub(super) fn find_tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    find_source::<rustls::Error>(error)
}

fn refuses_handshake(error: &rustls::Error) -> bool {
    use AlertDescription as Alert;
    matches!(
        error,
        rustls::Error::AlertReceived(
            Alert::HandshakeFailure
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::CertificateRequired
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::DecryptError
        )
    )
}

/// The kind of the innermost I/O error, which says most.
fn innermost_io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    error_chain(error).filter_map(<dyn Error>::downcast_ref::<io::Error>).last().map(io::Error::kind)
}

pub(super) fn find_source<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    error_chain(error).find_map(<dyn Error>::downcast_ref)
}

/// Iterates over an error and its sources, including errors wrapped in I/O errors, which do not
/// report them as their source.
fn error_chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

/// The chain of sources as one line. An error that only repeats its source is left out.
fn describe_chain(error: &(dyn Error + 'static)) -> String {
    let mut story = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !story.ends_with(&text) {
            let _ = write!(story, ": {text}");
        }
        next = error.source();
    }
    story
}

#[cfg(test)]
mod tests {
    use bowline_proto::fault::Execution;

    use super::*;

    #[test]
    fn looks_into_io_errors() {
        let wrapped = io::Error::other(rustls::Error::DecryptError);
        assert_eq!(connect_fault(&wrapped).cause, Cause::Tls);
        let nested = io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused));
        // The outer one is an I/O error too, but carries no kind.
        assert_eq!(connect_fault(&nested).cause, Cause::Refused);
    }

    #[test]
    fn a_refused_client_certificate_was_not_executed() {
        let alert = |alert| exchange_fault(&io::Error::other(rustls::Error::AlertReceived(alert)));
        assert_eq!(alert(AlertDescription::CertificateRequired).execution, Execution::NotExecuted);
        assert_eq!(alert(AlertDescription::InternalError).execution, Execution::Unknown);
        assert_eq!(alert(AlertDescription::InternalError).cause, Cause::Tls);
    }
}
