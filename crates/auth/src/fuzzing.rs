//! Entry points of the fuzz targets into private code. Each function takes one input, and panics if
//! a guarantee is broken.

use std::time::{Duration, SystemTime};

use bowline_config::{Secret, is_loopback};
use bowline_store::{EncryptedStore, passphrase};
use serde_json::Value;
use url::{Url, form_urlencoded};

use crate::authorization_response::{self, CallbackOutcome, ExpectedResponse};
use crate::challenge::{Challenge, is_scope, missing_scopes};
use crate::discovery::Metadata;
use crate::login::paste::{self, PastedInput};
use crate::metadata::ResourceMetadata;
use crate::{export, grant};

const SERVER: &str = "https://mcp.example/v1/mcp";
const ISSUER: &str = "https://as.example";

/// `WWW-Authenticate` headers, one on each line.
pub fn challenge(input: &[u8]) {
    let headers: Vec<String> =
        input.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let read = Challenge::parse(&headers);
    if let Some(url) = &read.resource_metadata {
        assert!(matches!(url.scheme(), "http" | "https") && url.has_host(), "{url}");
    }
    if let Some(scopes) = &read.scope {
        assert!(
            (1..=128).contains(&scopes.len()) && scopes.iter().all(|scope| is_scope(scope)),
            "{scopes:?}"
        );
    }
    for text in [&read.error, &read.error_description, &read.realm].into_iter().flatten() {
        assert!(!text.is_empty() && text.chars().count() <= 200, "{text:?}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    for scope in missing_scopes(&headers).unwrap_or_default() {
        assert!(!scope.contains([' ', ';', '$', '`', '\'', '"']), "{scope} means something in a shell");
    }
}

/// Metadata of a server or an authorization server.
pub fn metadata(input: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(input) else { return };
    let server: Url = SERVER.parse().expect("an address");
    let _ = (ResourceMetadata::is_resource_metadata(&document), Metadata::is_issuer_metadata(&document));
    if let Ok(described) = ResourceMetadata::parse(&document, &server, None) {
        let resource: Url = described.resource.parse().expect("a resource is an address");
        assert_eq!(resource.origin(), server.origin(), "it is about the server that was asked");
        assert!(described.scopes.iter().flatten().all(|scope| is_scope(scope)), "{described:?}");
    }
    if let Ok(read) = Metadata::parse(&document, &[ISSUER]) {
        assert_eq!(read.issuer, ISSUER);
        let endpoints = [
            &read.authorization_endpoint,
            &read.token_endpoint,
            &read.registration_endpoint,
            &read.device_authorization_endpoint,
            &read.revocation_endpoint,
        ];
        for url in endpoints.into_iter().flatten() {
            assert!(url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url)), "{url}");
            assert!(
                url.username().is_empty() && url.password().is_none() && url.fragment().is_none(),
                "{url}"
            );
        }
    }
}

/// An authorization response. The first byte says whether the issuer announced `iss`.
pub fn callback(input: &[u8]) {
    let Some((flag, text)) = input.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let state = "st-4f1c";
    let expected = ExpectedResponse {
        issuer: ISSUER.to_owned(),
        state: Secret::new(state),
        iss_required: flag % 2 == 1,
    };
    let redirect: Url = "http://127.0.0.1:7777/callback".parse().expect("an address");
    let is_bare = authorization_response::is_bare_code(text);
    if let Ok(CallbackOutcome::Code(code)) = authorization_response::parse(text, &expected) {
        assert!(!code.expose().is_empty());
        if is_bare {
            assert!(!expected.iss_required, "a code alone does not identify its issuer");
        } else {
            let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            let text = text.trim_matches(['"', '\'', '`', '<', '>']);
            let text = text.split('#').next().unwrap_or_default();
            let query = text.split_once('?').map_or(text, |(_, query)| query);
            let all = |name: &str| {
                let pairs = form_urlencoded::parse(query.as_bytes());
                pairs.filter(|(is, _)| is == name).map(|(_, value)| value.into_owned()).collect::<Vec<_>>()
            };
            assert_eq!(all("state"), [state], "it is of this login");
            assert_eq!(all("code"), [code.expose()]);
            assert!(
                all("iss").iter().all(|iss| iss == ISSUER) && all("iss").len() < 2,
                "it is from the issuer"
            );
            assert!(!expected.iss_required || all("iss").len() == 1);
            assert!(all("error").is_empty());
        }
    }
    if let PastedInput::Code { bare, .. } = paste::parse(text, &expected, &redirect) {
        assert_eq!(bare, is_bare);
    }
}

/// A token response. The first byte chooses status and content type.
pub fn token_answer(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    let asked_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let Some(object) = grant::fuzzing::read(*kind, body) else { return };
    if let Some(tokens) = grant::fuzzing::tokens(&object, asked_at) {
        for token in [Some(&tokens.access), tokens.refresh.as_ref(), tokens.id_token.as_ref()] {
            let Some(token) = token else { continue };
            let text = token.expose();
            assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()), "fit for a header");
        }
        if let Some(end) = tokens.expires_at {
            assert!(end > asked_at, "what ends at once is not believed");
        }
    }
    if let Some((typed, url)) = grant::fuzzing::device_code(&object) {
        assert!(!typed.contains(char::is_control), "{typed:?} is shown to a person");
        assert!(matches!(url.scheme(), "http" | "https"), "{url} is opened in a browser");
    }
}

/// An export of logins. The first byte chooses between the encrypted file and its content.
pub fn exported_login(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    if kind % 2 == 0 {
        let mut sealed = bytes.to_vec();
        // The key derivation cost, after eight bytes of magic and one version byte. It would be
        // honored, within bounds, and take a second each time.
        if let Some(cost) = sealed.get_mut(9..21) {
            cost.copy_from_slice(&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1]);
        }
        let _ = passphrase::open(&sealed, "a passphrase");
        let _ = passphrase::open(&bytes[..bytes.len().min(20)], "a passphrase");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let store = EncryptedStore::in_memory();
        if let Ok(taken) = export::import_decrypted(&store, bytes, export::Overwrite::Older).await {
            let listed = crate::accounts(&store).await.expect("what was taken over can be listed");
            assert!(taken.iter().all(|one| listed.iter().any(|other| other.id == one.id)), "{taken:?}");
        }
    });
}
