//! Icons (group IC): allowed sources, fetching, and inspection of the bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use bowline::Json;
use bowline::config::Tls;
use bowline::icons::{self, IconError, IconSource, Picture, PictureFormat};
use bowline::types::{Icon, Implementation};
use bowline_testkit::with;
use parking_lot::Mutex;
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

fn icon(src: &str) -> Icon {
    let json = Json::encode(&json!({ "name": "s", "icons": [{ "src": src }] })).unwrap();
    Implementation::decode(&json).unwrap().icons().remove(0)
}

/// Makes a PNG header of this size with these chunks before its data.
fn png(width: u32, height: u32, chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 6, 0, 0, 0]].concat();
    for (name, data) in [&[(b"IHDR", &header[..])], chunks, &[(b"IDAT", &[][..])]].concat() {
        out.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        out.extend(name);
        out.extend(data);
        out.extend([0; 4]);
    }
    out
}

fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let mut out = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xdb\x00\x03x\xff\xc2\x00\x11\x08".to_vec();
    out.extend([height.to_be_bytes(), width.to_be_bytes()].concat());
    out
}

fn webp(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut out = b"RIFF\0\0\0\0WEBP".to_vec();
    for (name, data) in chunks {
        out.extend(*name);
        out.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        out.extend(*data);
        out.resize(out.len() + data.len() % 2, 0);
    }
    out
}

/// IC-01: PNG, JPEG and WebP are recognized by their headers.
#[test]
fn ic_01_pictures_are_recognized_by_their_bytes() {
    let is = |kind, frames| Ok((kind, 48, 32, frames));
    let inspect = |bytes: &[u8], declared| {
        icons::inspect(bytes, declared)
            .map(|picture: Picture| (picture.format, picture.width, picture.height, picture.frames))
    };
    assert_eq!(inspect(&png(48, 32, &[]), Some("image/png")), is(PictureFormat::Png, 1));
    let moving = png(48, 32, &[(b"gAMA", &[0; 4]), (b"acTL", &[0, 0, 0, 7, 0, 0, 0, 0])]);
    assert_eq!(inspect(&moving, None), is(PictureFormat::Png, 7));
    assert_eq!(inspect(&jpeg(48, 32), Some("image/JPEG; q=1")), is(PictureFormat::Jpeg, 1));
    let lossy = webp(&[(b"VP8 ", &[0, 0, 0, 0x9d, 1, 0x2a, 48, 0, 32, 0])]);
    assert_eq!(inspect(&lossy, Some("image/webp")), is(PictureFormat::Webp, 1));
    // Width and height less one, fourteen bits each: 47 and 31.
    let bits = (47_u32 + (31 << 14)).to_le_bytes();
    let lossless = webp(&[(b"VP8L", &[&[0x2f][..], &bits].concat())]);
    assert_eq!(inspect(&lossless, None), is(PictureFormat::Webp, 1));
    let canvas: &[u8] = &[2, 0, 0, 0, 47, 0, 0, 31, 0, 0];
    let frames = webp(&[(b"VP8X", canvas), (b"ANIM", &[0; 6]), (b"ANMF", &[1]), (b"ANMF", &[1, 2])]);
    assert_eq!(inspect(&frames, None), is(PictureFormat::Webp, 2));
}

/// IC-02: only `https:` from the server's own origin, or `data:`.
#[test]
fn ic_02_only_safe_sources_are_allowed() {
    let server = "https://mcp.example:8443/mcp".parse().unwrap();
    let check = |src: &str| icons::check(&icon(src), Some(&server));
    assert!(matches!(check("https://mcp.example:8443/icon.png?v=1"), Ok(IconSource::Remote(_))));
    let inline = format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode("abc"));
    assert_eq!(check(&inline), Ok(IconSource::Inline("abc".into())));
    assert_eq!(check(&inline.replace("data:", "DATA:")), Ok(IconSource::Inline("abc".into())));
    for scheme in ["javascript", "file", "ftp", "ws", "wss", "http", "vscode", "blob"] {
        let refused = check(&format!("{scheme}://mcp.example/icon.png"));
        assert_eq!(refused, Err(IconError::Scheme(scheme.into())));
    }
    assert!(matches!(check("javascript:alert(1)"), Err(IconError::Scheme(_))));
    for elsewhere in [
        "https://mcp.example/icon.png",
        "https://other.example:8443/icon.png",
        "https://mcp.example:8443@other.example/icon.png",
        "https://user@mcp.example:8443/icon.png",
    ] {
        assert_eq!(check(elsewhere), Err(IconError::Origin), "{elsewhere}");
    }
    for bad in [
        "",
        "icon.png",
        "/icon.png",
        "data",
        "data:",
        "data:image/png;base64",
        "data:image/png,abc",
        "data:,",
    ] {
        assert_eq!(check(bad), Err(IconError::Address), "{bad}");
    }
    assert_eq!(check("data:image/svg+xml,<svg/>"), Err(IconError::Svg));
    // A stdio server has no origin.
    let of_process = icons::check(&icon("https://mcp.example:8443/icon.png"), None);
    assert_eq!(of_process, Err(IconError::Origin));
    assert!(icons::check(&icon(&inline), None).is_ok());
}

/// IC-03: too large, too wide, too long, or of another type than declared.
#[test]
fn ic_03_hostile_bytes() {
    let refused = |bytes: &[u8], declared| icons::inspect(bytes, declared).unwrap_err();
    let mut large = png(48, 48, &[]);
    large.resize(100 << 20, 0);
    assert_eq!(refused(&large, None), IconError::TooLarge(1 << 20));
    let data = format!("data:image/png;base64,{}", "A".repeat(2 << 20));
    assert_eq!(icons::check(&icon(&data), None), Err(IconError::TooLarge(1 << 20)));
    for (width, height) in [(u32::MAX, 1), (1, 100_000), (1025, 1), (0, 48), (48, 0)] {
        assert_eq!(refused(&png(width, height, &[]), None), IconError::Dimensions { width, height });
    }
    assert!(matches!(refused(&jpeg(65_535, 65_535), None), IconError::Dimensions { .. }));
    assert_eq!(refused(&png(9, 9, &[(b"acTL", &[0, 0, 1, 0, 0, 0, 0, 0])]), None), IconError::Frames(256));
    assert_eq!(refused(&png(9, 9, &[]), Some("image/jpeg")), IconError::Mismatch("image/jpeg".into()));
    assert_eq!(refused(&jpeg(9, 9), Some("image/svg+xml")), IconError::Mismatch("image/svg+xml".into()));
    for svg in ["<svg onload='x'/>", "<?xml version='1.0'?><x/>", " \u{feff}<!DOCTYPE svg><SVG/>"] {
        assert_eq!(refused(svg.as_bytes(), Some("image/svg+xml")), IconError::Svg, "{svg}");
    }
    for (what, bytes) in [
        ("nothing", &b""[..]),
        ("a GIF", b"GIF89a\x01\0\x01\0"),
        ("a page", b"<html>"),
        ("half a PNG", &png(9, 9, &[])[..30]),
        ("a PNG that begins elsewhere", b"\x89PNG\r\n\x1a\n\0\0\0\0IDAT\0\0\0\0"),
        ("a PNG with a chunk beyond its end", b"\x89PNG\r\n\x1a\n\xff\xff\xff\xffIHDR\0\0\0\x09\0\0\0\x09"),
        ("half a JPEG", &jpeg(9, 9)[..20]),
        ("a JPEG without a frame", b"\xff\xd8\xff\xda\0\x02\xff\xc0\0\x11\x08\0\x09\0\x09"),
        ("half a WebP", b"RIFF\0\0\0\0WEBPVP8L"),
        ("a WebP of something else", b"RIFF\0\0\0\0WEBPABCD\x04\0\0\0abcd"),
        ("another RIFF", b"RIFF\0\0\0\0WAVEfmt \0\0\0\0"),
    ] {
        assert_eq!(refused(bytes, None), IconError::Unknown, "{what}");
    }
}

proptest! {
    /// IC-03: arbitrary bytes after any magic number give a picture or an error, never a panic.
    #[test]
    fn ic_03_any_bytes(head in 0..4_usize, rest in proptest::collection::vec(any::<u8>(), 0..200)) {
        let heads: [&[u8]; 4] = [b"", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8X"];
        if let Ok(picture) = icons::inspect(&[heads[head], &rest].concat(), None) {
            prop_assert!((1..=1024).contains(&picture.width) && (1..=1024).contains(&picture.height));
        }
    }
}

/// A TLS server that answers every request alike and records the requests.
struct TlsServer {
    addr: SocketAddr,
    tls: Tls,
    requests: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl TlsServer {
    async fn new(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let folder = TempDir::new().unwrap();
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, issuer.pem()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap();
                let _ = stream.write_all(&answer(&request)).await;
                let _ = stream.shutdown().await;
                seen.lock().push(request);
            }
        });
        Self { addr, tls: with!(Tls::default(), ca_file: Some(ca_file)), requests, _folder: folder }
    }

    /// Fetches an icon of this server, with settings that would send a client certificate.
    async fn fetch(&self, path: &str) -> Result<bytes::Bytes, IconError> {
        let origin = format!("https://{}", self.addr);
        let server = format!("{origin}/mcp").parse().unwrap();
        let IconSource::Remote(remote) =
            icons::check(&icon(&format!("{origin}{path}")), Some(&server)).unwrap()
        else {
            panic!("it is remote");
        };
        let missing = Some("no-such-file.pem".into());
        let tls = with!(self.tls.clone(), client_cert: missing.clone(), client_key: missing);
        icons::fetch(&remote, &tls).await
    }
}

fn ok_response(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{headers}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// IC-02: icons are fetched without credentials, and only from the origin.
#[tokio::test]
async fn ic_02_fetching() {
    let picture = png(48, 48, &[]);
    let served = picture.clone();
    let site = TlsServer::new(move |request| {
        let path = request.split(' ').nth(1).unwrap();
        let moved = |to: &str| {
            format!("HTTP/1.1 302 Found\r\nconnection: close\r\ncontent-length: 0\r\nlocation: {to}\r\n\r\n")
                .into_bytes()
        };
        match path {
            "/elsewhere" => moved("https://other.example/icon.png"),
            "/down" => moved(&format!(
                "http://{}/icon.png",
                request.split("host: ").nth(1).unwrap().lines().next().unwrap()
            )),
            "/here" => moved("/icon.png"),
            "/round" => moved("/round"),
            "/none" => b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec(),
            _ => {
                ok_response(&format!("content-type: image/png\r\ncontent-length: {}", served.len()), &served)
            }
        }
    })
    .await;
    let fetched = site.fetch("/icon.png").await.unwrap();
    assert_eq!(icons::inspect(&fetched, Some("image/png")).unwrap().format, PictureFormat::Png);
    assert_eq!(fetched, picture);
    assert_eq!(site.fetch("/here").await.unwrap(), picture);
    for refused in ["/elsewhere", "/down", "/round", "/none"] {
        assert!(matches!(site.fetch(refused).await, Err(IconError::Fetch(_))), "{refused}");
    }
    let requests = site.requests.lock().clone();
    let names = |request: &String| {
        request
            .lines()
            .skip(1)
            .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
            .collect::<Vec<_>>()
    };
    for request in &requests {
        let mut names = names(request);
        names.sort();
        assert_eq!(names, ["accept", "accept-encoding", "host", "user-agent"], "{request}");
    }
    let at =
        |path: &str| requests.iter().filter(|request| request.starts_with(&format!("GET {path} "))).count();
    assert_eq!((at("/icon.png"), at("/elsewhere"), at("/down")), (2, 1, 1));
    assert!(at("/round") < 10);
}

/// IC-03: a response that is too large or incomplete is refused.
#[tokio::test]
async fn ic_03_fetching_is_bounded() {
    let site = TlsServer::new(|request| {
        let image = |length: &str, body: usize| {
            ok_response(&format!("content-type: image/png{length}"), &vec![7; body])
        };
        match request.split(' ').nth(1).unwrap() {
            "/just" => image("\r\ncontent-length: 65535", 65_535),
            "/large" => image("\r\ncontent-length: 65536", 65_536),
            "/huge" => image("\r\ncontent-length: 100000000", 200_000),
            "/cut" => image("\r\ncontent-length: 5000", 100),
            "/endless" => image("", 200_000),
            _ => ok_response("content-type: text/event-stream\r\ncontent-length: 9", b"data: x\n\n"),
        }
    })
    .await;
    assert_eq!(site.fetch("/just").await.unwrap().len(), 65_535);
    for path in ["/large", "/huge"] {
        assert_eq!(site.fetch(path).await, Err(IconError::TooLarge(65_536)), "{path}");
    }
    for path in ["/cut", "/endless", "/events"] {
        assert!(matches!(site.fetch(path).await, Err(IconError::Fetch(_))), "{path}");
    }
}
