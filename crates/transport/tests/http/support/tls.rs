//! A certificate authority for the tests.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_config::Tls;
use bowline_testkit::with;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// An authority, and the certificates it has signed, as files.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// Whether the server requires a client certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    Any,
    Certified,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { issuer, folder: TempDir::new().unwrap() };
        authority.write("ca.pem", &authority.issuer.pem());
        authority
    }

    /// A server for `server.test` and 127.0.0.1 that offers these protocols.
    pub(crate) fn server(&self, protocols: &[&[u8]], clients: ClientAuth) -> TlsAcceptor {
        TlsAcceptor::from(self.server_config(protocols, clients))
    }

    /// The settings of such a server.
    pub(crate) fn server_config(&self, protocols: &[&[u8]], clients: ClientAuth) -> Arc<ServerConfig> {
        let names = ["server.test".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.unwrap();
        let builder = match clients {
            ClientAuth::Any => builder.with_no_client_auth(),
            ClientAuth::Certified => {
                let mut roots = RootCertStore::empty();
                roots.add(self.issuer.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    /// Settings that trust this authority.
    pub(crate) fn trust(&self) -> Tls {
        with!(Tls::default(), ca_file: Some(self.folder.path().join("ca.pem")))
    }

    /// Settings that trust this authority and present a client certificate.
    pub(crate) fn client(&self) -> Tls {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["client".to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let cert = self.write("client.pem", &certificate.pem());
        let key = self.write("client.key", &key.serialize_pem());
        with!(self.trust(), client_cert: Some(cert), client_key: Some(key))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}
