//! Describes why TLS failed, in the words of a person and not of the library.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// The kind of a TLS failure, for those who decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsProblem {
    /// The server answers in something else than TLS.
    NotTls,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotValidYet,
    /// Nobody that this machine trusts has signed the certificate.
    UnknownIssuer,
    /// The certificate is for other names.
    WrongName,
    /// The certificate was revoked.
    Revoked,
    /// The server presents the certificate of an authority as its own.
    AuthorityCertificate,
    /// The certificate cannot be used for another reason.
    OtherCertificate,
    /// The server refused our certificate, or wants one.
    ClientCertificate,
    /// The server refused the handshake for another reason.
    Refused,
    /// The handshake failed for another reason.
    Other,
}

/// What kind of failure it is.
pub(super) fn classify(error: &Error) -> TlsProblem {
    use AlertDescription as Alert;
    use CertificateError as Problem;
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsProblem::NotTls,
        Error::InvalidCertificate(problem) => match problem {
            Problem::Expired | Problem::ExpiredContext { .. } => TlsProblem::Expired,
            Problem::NotValidYet | Problem::NotValidYetContext { .. } => TlsProblem::NotValidYet,
            Problem::UnknownIssuer => TlsProblem::UnknownIssuer,
            Problem::NotValidForName | Problem::NotValidForNameContext { .. } => TlsProblem::WrongName,
            Problem::Revoked => TlsProblem::Revoked,
            problem if is_authority_certificate(problem) => TlsProblem::AuthorityCertificate,
            _ => TlsProblem::OtherCertificate,
        },
        Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => TlsProblem::ClientCertificate,
        Error::AlertReceived(_) => TlsProblem::Refused,
        _ => TlsProblem::Other,
    }
}

/// Whether the certificate is that of an authority. The library has no variant of its own for this
/// common mistake.
fn is_authority_certificate(problem: &CertificateError) -> bool {
    matches!(problem, CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
}

/// What is wrong, as a phrase that follows "TLS handshake failed".
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => NOT_TLS.to_owned(),
        Error::InvalidCertificate(problem) => describe_certificate(problem),
        _ => error.to_string(),
    }
}

fn describe_certificate(problem: &CertificateError) -> String {
    use CertificateError as Problem;
    let text = match problem {
        Problem::Expired | Problem::ExpiredContext { .. } => "the server's certificate has expired",
        Problem::NotValidYet | Problem::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: is the clock of this machine right?"
        }
        Problem::UnknownIssuer => "the server's certificate is signed by nobody that this machine trusts",
        Problem::NotValidForName | Problem::NotValidForNameContext { .. } => {
            "the server's certificate is for another name"
        }
        Problem::Revoked => "the server's certificate was revoked",
        problem if is_authority_certificate(problem) => {
            "the server uses the certificate of an authority as its own: it needs one that the authority has signed"
        }
        _ => return format!("the server's certificate cannot be used: {problem}"),
    };
    text.to_owned()
}

/// The description of a server that answers in something else than TLS.
pub const NOT_TLS: &str = "the server does not speak TLS on this port";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_mistakes_have_plain_words() {
        let of = |problem| describe(&Error::InvalidCertificate(problem));
        assert_eq!(of(CertificateError::Expired), "the server's certificate has expired");
        assert_eq!(of(CertificateError::NotValidForName), "the server's certificate is for another name");
        let not_tls = Error::InvalidMessage(InvalidMessage::InvalidContentType);
        assert_eq!(describe(&not_tls), "the server does not speak TLS on this port");
        assert_eq!(describe(&Error::DecryptError), "cannot decrypt peer's message");
        assert_eq!(classify(&not_tls), TlsProblem::NotTls);
        let kind = |problem| classify(&Error::InvalidCertificate(problem));
        assert_eq!(kind(CertificateError::UnknownIssuer), TlsProblem::UnknownIssuer);
        assert_eq!(kind(CertificateError::BadSignature), TlsProblem::OtherCertificate);
        let alert = |alert| classify(&Error::AlertReceived(alert));
        assert_eq!(alert(AlertDescription::CertificateRequired), TlsProblem::ClientCertificate);
        assert_eq!(alert(AlertDescription::HandshakeFailure), TlsProblem::Refused);
    }
}
