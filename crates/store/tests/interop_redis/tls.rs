//! A server behind TLS, with a certificate that is created for the test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use crate::server::Server;
use crate::worker::Worker;

fn certificate() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap()
}

/// Terminates TLS in front of a socket. Returns the port.
async fn in_front_of(socket: PathBuf, with: &CertifiedKey<KeyPair>) -> u16 {
    let key = PrivateKeyDer::Pkcs8(with.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let settings = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![with.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((plain, _)) = listener.accept().await {
            // A client that does not trust the certificate disconnects.
            if let Ok(mut sealed) = acceptor.accept(plain).await {
                let mut server = UnixStream::connect(&socket).await.unwrap();
                tokio::spawn(async move { copy_bidirectional(&mut sealed, &mut server).await });
            }
        }
    });
    port
}

/// The output of a process that trusts only this certificate.
async fn says(trusted: &Path, url: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
    let mut worker = Worker::start_by(command, "reach", url);
    tokio::task::spawn_blocking(move || {
        let said = worker.says().expect("it says how it went");
        worker.done();
        said
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn only_a_certificate_that_is_trusted_is_spoken_to() {
    let folder = tempfile::tempdir().unwrap();
    let pem = |name: &str, of: &CertifiedKey<KeyPair>| {
        let path = folder.path().join(name);
        std::fs::write(&path, of.cert.pem()).unwrap();
        path
    };
    let (ours, strangers) = (certificate(), certificate());
    let server = Server::start();
    let url = format!("rediss://localhost:{}", in_front_of(server.socket(), &ours).await);

    let refused = says(&pem("strangers", &strangers), &url).await;
    assert!(refused.starts_with("failed") && refused.contains("certificate"), "{refused}");
    let reached = says(&pem("ours", &ours), &url).await;
    assert!(reached.starts_with("kept in") && reached.contains("localhost"), "{reached}");
}
