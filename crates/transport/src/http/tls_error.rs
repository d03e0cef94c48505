//! Describes why TLS failed, in the words of a person and not of the library.

use rustls::{CertificateError, Error, InvalidMessage};

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
        // The library has no variant of its own for this common mistake.
        Problem::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
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
    }
}
