//! The check `tls`: which certificate the server presents, and why it is not accepted.

use std::time::{Duration, Instant, SystemTime};

use bowline::{Cause, Fault, Misbehavior};
use bowline_transport::http::{Proxies, ServerProbe, TlsProbeError, TlsProbeReport, TlsProblem};
use url::Url;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate, X509Name};

use super::check::{Blame, CheckLog, Finding};
use super::network;
use super::subject::Subject;
use crate::exit::Exit;
use crate::print::clock;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A certificate that ends sooner than this is worth a warning: most are renewed a month before.
const EXPIRY_NOTICE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Performs a handshake, if the URL is `https`. Returns whether it did not fail.
pub(super) async fn check(probe: &ServerProbe, subject: &Subject<'_>, log: &CheckLog) -> bool {
    let begun = Instant::now();
    let Some(report) = probe.handshake(HANDSHAKE_TIMEOUT).await else { return true };
    let of_proxy = match &report.outcome {
        Err(TlsProbeError::Connection(fault)) => network::check_tunnel(probe, fault, subject).await,
        _ => None,
    };
    let found = of_proxy.unwrap_or_else(|| finding(&report, SystemTime::now(), subject));
    log.add("tls", begun, found)
}

/// Whether a server with an `http` URL presents a certificate at the same URL with `https`. Nothing is sent unless
/// the fault looks like that of a server that was sent something else than TLS.
pub(super) async fn is_required(fault: &Fault, subject: &Subject<'_>) -> bool {
    let is_suspect = matches!(
        fault.cause,
        Cause::Cut | Cause::Status { code: 400, .. } | Cause::Protocol(Misbehavior::ContentType)
    );
    let http = subject.server.transport.http().filter(|http| http.socket.is_none());
    let Some(http) = http.filter(|_| is_suspect && subject.proxy.is_none() && subject.has_scheme("http"))
    else {
        return false;
    };
    let mut http = http.clone();
    with_tls(&mut http.url);
    let Ok(probe) = ServerProbe::new(&http, Proxies::Direct) else { return false };
    let report = probe.handshake(HANDSHAKE_TIMEOUT).await;
    report.is_some_and(|report| report.outcome.is_ok() || !report.certificates.is_empty())
}

/// Returns the finding for a server that speaks TLS, while its URL is `http`.
pub(super) fn required_finding(subject: &Subject<'_>) -> Finding {
    Finding::failed(Blame::You, Exit::Connection, "the server speaks TLS, and the URL is http")
        .fix("write https:// in the URL")
        .run(subject.other_url_command(with_tls))
}

/// What is shown of a certificate. Its text is the server's: untrusted.
struct CertificateFacts {
    subject: String,
    issuer: String,
    names: Vec<String>,
    starts: SystemTime,
    ends: SystemTime,
}

impl CertificateFacts {
    fn parse(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        let at =
            |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|names| &names.value.general_names).filter_map(name_text);
        Some(Self {
            subject: distinguished_name(certificate.subject()),
            issuer: distinguished_name(certificate.issuer()),
            names: names.take(MAX_NAMES).collect(),
            starts: at(validity.not_before.timestamp()),
            ends: at(validity.not_after.timestamp()),
        })
    }

    fn lines(&self) -> Vec<String> {
        let day = |at| clock::utc(at).chars().take(10).collect::<String>();
        let mut lines = vec![
            format!("certificate of {}", self.subject),
            format!("signed by {}", if self.is_self_signed() { "itself" } else { &self.issuer }),
            format!("valid from {} to {}", day(self.starts), day(self.ends)),
        ];
        if !self.names.is_empty() {
            lines.push(format!("for {}", self.names.join(", ")));
        }
        lines
    }

    fn is_self_signed(&self) -> bool {
        self.subject == self.issuer
    }
}

/// How many names of a certificate are shown, and how many characters of each.
const MAX_NAMES: usize = 10;
const MAX_NAME_CHARS: usize = 100;

fn name_text(name: &GeneralName<'_>) -> Option<String> {
    let text = match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress([a, b, c, d]) => format!("{a}.{b}.{c}.{d}"),
        GeneralName::IPAddress(bytes) => {
            let bytes: [u8; 16] = (*bytes).try_into().ok()?;
            std::net::Ipv6Addr::from(bytes).to_string()
        }
        _ => return None,
    };
    Some(text.chars().take(MAX_NAME_CHARS).collect())
}

fn distinguished_name(name: &X509Name<'_>) -> String {
    let first = name.iter_common_name().chain(name.iter_organization()).find_map(|part| part.as_str().ok());
    let text = first.map_or_else(|| name.to_string(), str::to_owned);
    if text.is_empty() { "(no name)".to_owned() } else { text.chars().take(MAX_NAME_CHARS).collect() }
}

fn finding(report: &TlsProbeReport, now: SystemTime, subject: &Subject<'_>) -> Finding {
    let certificate = report.certificates.first().and_then(|der| CertificateFacts::parse(der));
    let lines = certificate.as_ref().map(CertificateFacts::lines).unwrap_or_default();
    match &report.outcome {
        Ok(agreed) => match &certificate {
            Some(certificate) if certificate.ends < now + EXPIRY_NOTICE => {
                let left = certificate.ends.duration_since(now).unwrap_or_default();
                let seen = format!("{agreed}; the certificate expires in {}", clock::format_span(left));
                Finding::warning(Blame::Server, seen)
                    .fix("whoever runs the server has to renew it")
                    .details(lines)
            }
            Some(certificate) => {
                Finding::ok(format!("{agreed}, certificate of {}", certificate.subject)).details(lines)
            }
            None => Finding::ok(agreed.clone()),
        },
        Err(TlsProbeError::Handshake(problem, described)) => {
            problem_finding(*problem, described, certificate.as_ref(), subject).details(lines)
        }
        Err(TlsProbeError::Settings(fault)) => Finding::failed(
            Blame::You,
            Exit::Usage,
            format!("a file of the TLS settings cannot be used: {}", note(fault)),
        )
        .fix("correct `ca_file`, `client_cert` and `client_key` in its entry")
        .run(subject.edit_command()),
        Err(TlsProbeError::Connection(fault)) => connection_finding(fault, subject),
        Err(_) => Finding::failed(Blame::Server, Exit::Connection, "the handshake failed"),
    }
}

/// Changes the URL of a server that has a certificate.
fn with_tls(url: &mut Url) {
    // It can be changed from one special scheme to another.
    let _ = url.set_scheme("https");
}

/// Changes the URL of a server that has no certificate.
fn without_tls(url: &mut Url) {
    // It can be changed from one special scheme to another.
    let _ = url.set_scheme("http");
}

fn note(fault: &Fault) -> String {
    fault.evidence.note.clone().unwrap_or_else(|| fault.to_string())
}

fn connection_finding(fault: &Fault, subject: &Subject<'_>) -> Finding {
    let again = subject.doctor_command(&[]);
    match fault.cause {
        Cause::Timeout(_) => {
            let seen = format!("the handshake was not finished within {} s", HANDSHAKE_TIMEOUT.as_secs());
            Finding::failed(Blame::Server, Exit::Timeout, seen)
                .fix("the server, or something in front of it, hangs: ask who runs it")
                .run(again)
        }
        Cause::Cut => {
            Finding::failed(Blame::Server, Exit::Connection, "the connection was closed during the handshake")
                .fix("is that port for TLS? If not, write http://")
                .run(subject.other_url_command(without_tls))
        }
        _ => Finding::failed(Blame::Network, Exit::Connection, fault.to_string())
            .fix("try again; if it stays, ask who runs the server")
            .run(again),
    }
}

fn problem_finding(
    problem: TlsProblem,
    described: &str,
    certificate: Option<&CertificateFacts>,
    subject: &Subject<'_>,
) -> Finding {
    let failed = |blame| Finding::failed(blame, Exit::Connection, described);
    let edit = subject.edit_command();
    match problem {
        TlsProblem::NotTls => failed(Blame::You)
            .fix("if the server has no certificate, write http://")
            .run(subject.other_url_command(without_tls)),
        TlsProblem::Expired => failed(Blame::Server).fix("whoever runs the server has to renew it"),
        TlsProblem::NotValidYet => {
            failed(Blame::Machine).fix("set the clock of this machine").run(clock_command())
        }
        TlsProblem::UnknownIssuer => {
            let seen = match certificate {
                Some(facts) if facts.is_self_signed() => {
                    "the server's certificate is signed by itself".to_owned()
                }
                Some(facts) => {
                    format!(
                        "the server's certificate is signed by {}, which this machine does not trust",
                        facts.issuer
                    )
                }
                None => described.to_owned(),
            };
            Finding::failed(Blame::You, Exit::Connection, seen)
                .fix("if that is right, save the certificate of the authority and name the file as `ca_file` in the server's entry")
                .run(edit)
        }
        TlsProblem::WrongName => {
            let host =
                subject.server.transport.http().and_then(|http| http.url.host_str()).unwrap_or_default();
            let names = certificate.map(|facts| facts.names.join(", ")).filter(|names| !names.is_empty());
            let names = names.unwrap_or_else(|| "no name at all".to_owned());
            let seen = format!("the server's certificate is not for {host}, but for {names}");
            Finding::failed(Blame::Server, Exit::Connection, seen)
                .fix("use one of those names in the URL, or have the server's certificate corrected")
                .run(edit)
        }
        TlsProblem::ClientCertificate => failed(Blame::You)
            .fix("set `client_cert` and `client_key` in its entry to a certificate that the server accepts")
            .run(edit),
        _ => failed(Blame::Server).fix("ask who runs the server"),
    }
}

/// Returns the command that sets the clock by the network, where there is one.
pub(super) fn clock_command() -> Option<String> {
    match std::env::consts::OS {
        "linux" => Some("sudo timedatectl set-ntp true".to_owned()),
        "macos" => Some("sudo sntp -sS time.apple.com".to_owned()),
        "windows" => Some("w32tm /resync".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bowline::Server;

    use super::*;
    use crate::commands::doctor::subject::tests::with_subject;

    #[test]
    fn certificate_that_cannot_be_parsed_hides_no_finding() {
        let server = Server::http("docs", "https://docs.example/mcp").build().unwrap();
        with_subject(&server, |subject| {
            for (problem, blame) in [
                (TlsProblem::NotTls, Blame::You),
                (TlsProblem::Expired, Blame::Server),
                (TlsProblem::NotValidYet, Blame::Machine),
                (TlsProblem::UnknownIssuer, Blame::You),
                (TlsProblem::WrongName, Blame::Server),
                (TlsProblem::Revoked, Blame::Server),
                (TlsProblem::AuthorityCertificate, Blame::Server),
                (TlsProblem::ClientCertificate, Blame::You),
                (TlsProblem::Refused, Blame::Server),
            ] {
                let finding = problem_finding(problem, "described", None, subject);
                assert_eq!(finding.blame, Some(blame), "{problem:?}");
                assert!(finding.is_failed() && finding.remedy.is_some(), "{problem:?}");
            }
        });
        assert!(CertificateFacts::parse(b"no certificate").is_none());
    }

    #[test]
    fn a_certificate_without_names_is_described() {
        assert_eq!(distinguished_name(&X509Name::new(Vec::new(), &[])), "(no name)");
    }
}
