//! Certificates: each reason why one is not accepted is named, with the certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Examined, verdict};
use crate::context::{Context, toml_path};

/// An authority, and a server that presents a certificate and then closes the connection.
struct TlsSite {
    context: Context,
    address: SocketAddr,
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Harbor Authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn params(names: &[&str], from: i32, to: i32) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "knots");
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(to, 1, 1);
    params
}

impl TlsSite {
    async fn start(certificate: CertificateDer<'static>, key: &KeyPair, trusted: Option<&str>) -> Self {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(acceptor.accept(stream).await);
            }
        });
        let context = Context::new();
        let trust = trusted.map_or_else(String::new, |pem| {
            format!("ca_file = {}\n", toml_path(&context.write("home/ca.pem", pem)))
        });
        context.user_config(&format!("[servers.docs]\nurl = 'https://{address}/mcp'\n{trust}"));
        Self { context, address }
    }

    /// Starts a server whose certificate the authority has signed.
    async fn signed(params: CertificateParams, is_trusted: bool) -> Self {
        let issuer = authority();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Self::start(certificate.der().clone(), &key, is_trusted.then(|| issuer.pem()).as_deref()).await
    }

    /// Returns the verdict with what is shown of the certificate.
    async fn verdict(self) -> String {
        let Self { context, address } = self;
        tokio::task::spawn_blocking(move || {
            let examined = Examined::of(&context, &["docs", "--connect-timeout", "5s"]);
            let details = examined.check("tls")["details"].to_string();
            let shown = format!("{}\n{details}", examined.verdict());
            context.hide_paths(&shown).replace(&address.port().to_string(), "[PORT]")
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn expired_certificate_is_named() {
    let site = TlsSite::signed(params(&["127.0.0.1"], 2019, 2020), true).await;
    verdict!(site.verdict().await, @r#"
    exit 3
    tls failed, server: the server's certificate has expired
      whoever runs the server has to renew it
      $ -
    ["certificate of knots","signed by Harbor Authority","valid from 2019-01-01 to 2020-01-01","for 127.0.0.1"]
    "#);
}

#[tokio::test]
async fn certificate_of_the_future_is_named() {
    let site = TlsSite::signed(params(&["127.0.0.1"], 2090, 2095), true).await;
    let shown = site.verdict().await;
    assert!(
        shown.starts_with("exit 3\ntls failed, machine: the server's certificate is not valid yet"),
        "{shown}"
    );
}

#[tokio::test]
async fn certificate_for_other_names_is_named() {
    let site = TlsSite::signed(params(&["rope.example", "10.0.0.1"], 2020, 2090), true).await;
    verdict!(site.verdict().await, @r#"
    exit 3
    tls failed, server: the server's certificate is not for 127.0.0.1, but for rope.example, 10.0.0.1
      use one of those names in the URL, or have the server's certificate corrected
      $ bowline edit
    ["certificate of knots","signed by Harbor Authority","valid from 2020-01-01 to 2090-01-01","for rope.example, 10.0.0.1"]
    "#);
}

#[tokio::test]
async fn certificate_of_an_unknown_authority_is_named() {
    let site = TlsSite::signed(params(&["127.0.0.1"], 2020, 2090), false).await;
    verdict!(site.verdict().await, @r#"
    exit 3
    tls failed, you: the server's certificate is signed by Harbor Authority, which this machine does not trust
      if that is right, save the certificate of the authority and name the file as `ca_file` in the server's entry
      $ bowline edit
    ["certificate of knots","signed by Harbor Authority","valid from 2020-01-01 to 2090-01-01","for 127.0.0.1"]
    "#);
}

#[tokio::test]
async fn self_signed_certificate_is_named() {
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["127.0.0.1"], 2020, 2090).self_signed(&key).unwrap();
    let site = TlsSite::start(certificate.der().clone(), &key, None).await;
    verdict!(site.verdict().await, @r#"
    exit 3
    tls failed, you: the server's certificate is signed by itself
      if that is right, save the certificate of the authority and name the file as `ca_file` in the server's entry
      $ bowline edit
    ["certificate of knots","signed by itself","valid from 2020-01-01 to 2090-01-01","for 127.0.0.1"]
    "#);
}

#[tokio::test]
async fn http_url_of_a_server_with_tls_is_named() {
    let TlsSite { context, address } = TlsSite::signed(params(&["127.0.0.1"], 2020, 2090), true).await;
    let examining = tokio::task::spawn_blocking(move || {
        let url = format!("http://{address}/mcp");
        Examined::of(&context, &[&*url, "--connect-timeout", "5s"])
    });
    verdict!(examining.await.unwrap().verdict(), @"
    exit 3
    connection failed, you: the server speaks TLS, and the URL is http
      write https:// in the URL
      $ bowline doctor https://127.0.0.1:[PORT]/mcp
    ");
}

#[tokio::test]
async fn missing_file_of_authorities_is_named() {
    let context = Context::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let file = context.path("home/no-such.pem");
    context.user_config(&format!(
        "[servers.docs]\nurl = 'https://{address}/mcp'\nca_file = {}\n",
        toml_path(&file)
    ));
    let examined = Examined::of(&context, &["docs"]);
    let check = examined.check("tls");
    assert_eq!((&check["status"], &check["blame"]), (&"failed".into(), &"you".into()), "{check}");
    assert_eq!((examined.code, &check["remedy"]["command"]), (2, &"bowline edit".into()));
    assert!(check["seen"].as_str().unwrap().contains("no-such.pem"), "{check}");
}
