//! Decides which certificates are trusted, and which one we present.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bowline_config::Tls;
use bowline_proto::fault::{Cause, Fault};
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use rustls_platform_verifier::Verifier;
use tokio::sync::OnceCell;

use super::http2_connection::OFFERED_PROTOCOLS;

/// The TLS settings of one server, read from disk when first needed.
#[derive(Debug)]
pub(super) struct TlsSettings {
    tls: Tls,
    versions: OfferedVersions,
    config: OnceCell<Arc<ClientConfig>>,
}

/// Which versions of HTTP are offered by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfferedVersions {
    Any,
    Http1,
}

impl TlsSettings {
    pub(super) fn new(tls: Tls, versions: OfferedVersions) -> Self {
        Self { tls, versions, config: OnceCell::new() }
    }

    /// The TLS configuration for the server itself.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, Fault> {
        let config = self.config.get_or_try_init(|| async {
            let config = Self::load(self.tls.clone()).await?;
            if self.versions == OfferedVersions::Any {
                return Ok(config);
            }
            let mut config = ClientConfig::clone(&config);
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(Arc::new(config))
        });
        config.await.cloned()
    }

    /// The TLS configuration for a proxy in front of it, which speaks HTTP/1.1 and must not see our
    /// certificate.
    pub(super) async fn proxy_config(&self) -> Result<Arc<ClientConfig>, Fault> {
        let tls = self.tls.without_client_certificate();
        let mut config = ClientConfig::clone(&*Self::load(tls).await?);
        config.alpn_protocols = Vec::new();
        Ok(Arc::new(config))
    }

    async fn load(tls: Tls) -> Result<Arc<ClientConfig>, Fault> {
        // The trust store of the system consists of many files, so it is read on a blocking thread.
        let built = tokio::task::spawn_blocking(move || build(&tls));
        built.await.map_err(|_| Fault::before_sending(Cause::Closed))?
    }
}

fn build(tls: &Tls) -> Result<Arc<ClientConfig>, Fault> {
    // The trust store of the system is the same for all servers, takes a while to read, and is read
    // once per process. Sharing it also shares resumed TLS sessions.
    static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if *tls != Tls::default() {
        return configure(tls);
    }
    if let Some(config) = SYSTEM.get() {
        return Ok(Arc::clone(config));
    }
    let config = configure(tls)?;
    Ok(Arc::clone(SYSTEM.get_or_init(|| config)))
}

fn configure(tls: &Tls) -> Result<Arc<ClientConfig>, Fault> {
    configure_with(tls, |verifier| verifier)
}

/// Builds a configuration whose verifier may be wrapped, such as by one that records certificates.
pub(super) fn configure_with(
    tls: &Tls,
    wrap: impl FnOnce(Arc<dyn ServerCertVerifier>) -> Arc<dyn ServerCertVerifier>,
) -> Result<Arc<ClientConfig>, Fault> {
    let failed = |error: rustls::Error| Fault::before_sending(Cause::Tls).with_note(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let extra = tls.ca_file.as_deref().map(read_certificates).transpose()?.unwrap_or_default();
    let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&provider)).map_err(failed)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(wrap(Arc::new(verifier)));
    let mut config = match (&tls.client_cert, &tls.client_key) {
        (Some(cert), Some(key)) => {
            builder.with_client_auth_cert(read_certificates(cert)?, read_private_key(key)?).map_err(failed)?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => {
            return Err(Fault::before_sending(Cause::Tls)
                .with_note("a client certificate and its key must be given together"));
        }
    };
    config.alpn_protocols = OFFERED_PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable_file(path, &error.to_string()))?;
    if certificates.is_empty() {
        Err(unreadable_file(path, "no certificate in it"))
    } else {
        Ok(certificates)
    }
}

fn read_private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Fault> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable_file(path, &error.to_string()))
}

fn unreadable_file(path: &Path, why: &str) -> Fault {
    Fault::before_sending(Cause::Tls).with_note(format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_file_is_bad() {
        let folder = tempfile::tempdir().unwrap();
        let (absent, empty) = (folder.path().join("absent.pem"), folder.path().join("empty.pem"));
        std::fs::write(&empty, "no certificate here").unwrap();
        for path in [absent, empty] {
            let mut tls = Tls::default();
            tls.ca_file = Some(path.clone());
            let fault = build(&tls).unwrap_err();
            assert_eq!(fault.cause, Cause::Tls);
            let note = fault.evidence.note.unwrap();
            assert!(note.contains(path.to_str().unwrap()), "{note}");
        }
    }
}
