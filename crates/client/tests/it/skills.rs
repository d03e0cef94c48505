//! Skills over MCP: listed without being read, read only on request, and refused if they differ
//! from the listing.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use bowline::skills::{EXTENSION, Mismatch, SkillError};
use bowline::types::SkillFiles;
use bowline::{Client, ErrorKind, Id, Json, RpcError, Server};
use bowline_proto::wire::outgoing::{self, Frame};
use bowline_proto::wire::{self, Message};
use bowline_transport::pipe::{FrameReader as _, InboundFrame};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{PipeEnd, io_pair};

const SKILL_URI: &str = "skill://acme/refunds/SKILL.md";
const GUIDE_URI: &str = "skill://acme/refunds/references/the%20GUIDE.md";
const LOGO_URI: &str = "skill://acme/refunds/logo.bin";
const SKILL_TEXT: &str =
    "---\nname: refunds\ndescription: Give it back\nmetadata:\n  version: 1.5\n---\n\n# How\n";

/// The content of a server, for a test to modify.
#[derive(Clone)]
struct SkillServer {
    capabilities: Value,
    entries: Vec<Value>,
    /// The contents of each read result, by URI.
    files: BTreeMap<String, Value>,
}

impl SkillServer {
    fn new() -> Self {
        let logo = base64::engine::general_purpose::STANDARD.encode([0, 159, 146, 150]);
        Self {
            capabilities: json!({ "resources": {}, "extensions": { EXTENSION: {} } }),
            entries: vec![json!({
                "uri": SKILL_URI,
                "frontmatter": { "name": "refunds", "description": "Give it back", "metadata": { "version": 1.5 } },
                "resources": [
                    file(SKILL_URI, SKILL_TEXT.as_bytes()),
                    file(GUIDE_URI, b"Be kind.\n"),
                    file(LOGO_URI, &[0, 159, 146, 150]),
                ],
            })],
            files: [
                (SKILL_URI, json!([{ "uri": SKILL_URI, "text": SKILL_TEXT }])),
                (GUIDE_URI, json!([{ "uri": GUIDE_URI, "text": "Be kind.\n" }])),
                (LOGO_URI, json!([{ "uri": LOGO_URI, "blob": logo }])),
            ]
            .map(|(uri, contents)| (uri.to_owned(), contents))
            .into(),
        }
    }

    fn with_file(mut self, uri: &str, contents: Value) -> Self {
        self.files.insert(uri.to_owned(), contents);
        self
    }

    fn with_entry(mut self, pointer: &str, value: Value) -> Self {
        *self.entries[0].pointer_mut(pointer).unwrap() = value;
        self
    }

    /// Answers one request.
    fn answer(&self, method: &str, params: &Value) -> Result<Value, (i64, &'static str)> {
        let uri = params["uri"].as_str().unwrap_or_default();
        match method {
            "initialize" => Ok(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": self.capabilities,
                "serverInfo": { "name": "shelf", "version": "1" },
            })),
            // Each entry has its own page.
            "skills/list" => {
                let at: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
                let next = (at + 1 < self.entries.len()).then(|| (at + 1).to_string());
                let page: Vec<_> = self.entries.get(at).into_iter().collect();
                Ok(match next {
                    Some(next) => json!({ "skills": page, "nextCursor": next }),
                    None => json!({ "skills": page }),
                })
            }
            "skills/get" => match uri {
                "skill://lies/SKILL.md" => Ok(json!({ "skill": self.entries[0] })),
                _ => self
                    .entries
                    .iter()
                    .find(|entry| entry["uri"] == uri)
                    .map(|entry| json!({ "skill": entry }))
                    .ok_or((-32602, "no such skill")),
            },
            "resources/read" => self
                .files
                .get(uri)
                .map(|contents| json!({ "contents": contents }))
                .ok_or((-32002, "not found")),
            _ => Err((-32601, "unknown")),
        }
    }
}

fn file(uri: &str, bytes: &[u8]) -> Value {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex: Vec<_> = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "uri": uri, "digest": format!("sha256:{}", hex.concat()), "size": bytes.len() })
}

/// The recorded requests: methods, and the URIs of reads.
#[derive(Clone, Default)]
struct RequestLog(Arc<Mutex<Vec<String>>>);

impl RequestLog {
    fn reads(&self) -> Vec<String> {
        let asked = self.0.lock();
        asked.iter().filter_map(|line| line.strip_prefix("resources/read ").map(str::to_owned)).collect()
    }

    fn count(&self, method: &str) -> usize {
        self.0.lock().iter().filter(|line| line.split(' ').next() == Some(method)).count()
    }
}

async fn connect(shelf: SkillServer) -> (Client, RequestLog) {
    let ((reader, writer), theirs) = io_pair();
    let asked = RequestLog::default();
    tokio::spawn(serve(theirs, shelf, asked.clone()));
    let server =
        Server::stdio("shelf", "none").build().unwrap().with_protocol(bowline::config::Protocol::Legacy);
    (Client::builder(server).connect_io(reader, writer).await.unwrap(), asked)
}

async fn serve(mut end: PipeEnd, shelf: SkillServer, asked: RequestLog) {
    while let Ok(received) = end.reader.recv().await {
        let InboundFrame::Message(frame) = received else { continue };
        let Ok(Message::Request { id, method, params }) = wire::parse_one(&frame) else { continue };
        let params: Value = params.map(|params| params.decode().unwrap()).unwrap_or_default();
        let uri = params["uri"].as_str().unwrap_or_default();
        asked.0.lock().push(format!("{method} {uri}").trim_end().to_owned());
        let frame = answer(&id, shelf.answer(&method, &params));
        let _ = end.writer.send(&frame).await;
    }
}

fn answer(id: &Id, answer: Result<Value, (i64, &str)>) -> Frame {
    match answer {
        Ok(result) => outgoing::response(id, Ok(&Json::encode(&result).unwrap())),
        Err((code, message)) => {
            outgoing::response(id, Err(&RpcError { code, message: message.to_owned(), data: None }))
        }
    }
}

/// Listing reads nothing, getting a skill is one read, and each file is another.
#[tokio::test]
async fn nothing_is_read_before_it_is_asked_for() {
    let (client, asked) = connect(SkillServer::new()).await;
    let skills = client.list_skills().await.unwrap();
    let [entry] = &*skills.items else { panic!("{skills:?}") };
    assert_eq!((&*entry.name, &*entry.description), ("refunds", "Give it back"));
    assert_eq!(client.get_skill(SKILL_URI).await.unwrap(), *entry);
    assert_eq!(asked.reads(), [""; 0]);
    let skill = client.read_skill(entry).await.unwrap();
    assert_eq!((skill.text(), skill.instructions(), skill.server()), (SKILL_TEXT, "\n# How\n", "shelf"));
    assert_eq!(asked.reads(), [SKILL_URI]);
    // By relative path as in SKILL.md, percent-encoded, and by URI.
    for name in ["references/the GUIDE.md", "./references/the%20GUIDE.md", GUIDE_URI] {
        assert_eq!(skill.read_file(name).await.unwrap(), "Be kind.\n", "{name}");
    }
    assert_eq!(&skill.read_file("logo.bin").await.unwrap()[..], [0, 159, 146, 150]);
    assert_eq!(asked.reads(), [SKILL_URI, GUIDE_URI, GUIDE_URI, GUIDE_URI, LOGO_URI]);
    client.close().await;
}

/// A file that is not listed is not part of the skill, and is not requested.
#[tokio::test]
async fn unlisted_files_are_not_read() {
    let secret = "skill://acme/refunds/secret.md";
    let (client, asked) =
        connect(SkillServer::new().with_file(secret, json!([{ "uri": secret, "text": "x" }]))).await;
    let entry = client.get_skill(SKILL_URI).await.unwrap();
    let skill = client.read_skill(&entry).await.unwrap();
    for name in
        ["secret.md", secret, "../refunds/logo.bin", "references", "", "/logo.bin", "file:///etc/passwd"]
    {
        let error = skill.read_file(name).await.unwrap_err();
        assert!(matches!(error, SkillError::NotListed(_)), "{name}: {error}");
    }
    assert_eq!(asked.reads(), [SKILL_URI]);
    // Dynamic content has no listed digest to compare with.
    let (client, asked) = connect(SkillServer::new().with_entry("/resources", json!("dynamic"))).await;
    let entry = client.get_skill(SKILL_URI).await.unwrap();
    assert_eq!(entry.files, SkillFiles::Dynamic);
    assert!(matches!(client.read_skill(&entry).await, Err(SkillError::Dynamic)));
    assert_eq!(asked.reads(), [""; 0]);
}

/// Content that differs in any way is refused.
#[tokio::test]
async fn content_that_differs_from_the_listing_is_refused() {
    let text = |uri: &str, text: &str| json!([{ "uri": uri, "text": text }]);
    let evil = SKILL_TEXT.replace("# How", "# Now");
    let longer = format!("{SKILL_TEXT}more\n");
    let other = SKILL_TEXT.replace("Give it back", "Take it all");
    let fits = |shelf: SkillServer, text: &str| {
        let listed = file(SKILL_URI, text.as_bytes());
        shelf.with_entry("/resources/0", listed)
    };
    let blob = json!([{ "uri": SKILL_URI, "blob": "/w==" }]);
    for (what, shelf, expected) in [
        ("another text", SkillServer::new().with_file(SKILL_URI, text(SKILL_URI, &evil)), Mismatch::Digest),
        ("more of it", SkillServer::new().with_file(SKILL_URI, text(SKILL_URI, &longer)), Mismatch::Size),
        (
            "another frontmatter",
            fits(SkillServer::new().with_file(SKILL_URI, text(SKILL_URI, &other)), &other),
            Mismatch::Frontmatter,
        ),
        (
            "no frontmatter",
            fits(SkillServer::new().with_file(SKILL_URI, text(SKILL_URI, "# How")), "# How"),
            Mismatch::Frontmatter,
        ),
        (
            "another file",
            SkillServer::new().with_file(SKILL_URI, text(GUIDE_URI, SKILL_TEXT)),
            Mismatch::Contents,
        ),
        ("no file", SkillServer::new().with_file(SKILL_URI, json!([])), Mismatch::Contents),
        (
            "a file more",
            SkillServer::new().with_file(
                SKILL_URI,
                json!([{ "uri": SKILL_URI, "text": SKILL_TEXT }, { "uri": GUIDE_URI, "text": "x" }]),
            ),
            Mismatch::Contents,
        ),
        (
            "no Base64",
            SkillServer::new().with_file(SKILL_URI, json!([{ "uri": SKILL_URI, "blob": "?" }])),
            Mismatch::Contents,
        ),
        (
            "far too much",
            SkillServer::new()
                .with_file(SKILL_URI, json!([{ "uri": SKILL_URI, "blob": "A".repeat(500_000) }])),
            Mismatch::Size,
        ),
        (
            "no text",
            SkillServer::new().with_file(SKILL_URI, blob).with_entry("/resources/0", file(SKILL_URI, &[255])),
            Mismatch::Text,
        ),
    ] {
        let (client, _) = connect(shelf).await;
        let entry = client.get_skill(SKILL_URI).await.unwrap();
        match client.read_skill(&entry).await {
            Err(SkillError::NotAsListed { uri, mismatch }) => {
                assert_eq!((&*uri, mismatch), (SKILL_URI, expected), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    // This holds for the other files, too.
    let (client, _) = connect(SkillServer::new().with_file(GUIDE_URI, text(GUIDE_URI, "Be rude.\n"))).await;
    let skill = client.read_skill(&client.get_skill(SKILL_URI).await.unwrap()).await.unwrap();
    let error = skill.read_file(GUIDE_URI).await.unwrap_err();
    assert!(matches!(error, SkillError::NotAsListed { mismatch: Mismatch::Digest, .. }), "{error}");
}

/// An invalid entry is left out alone, over all pages; a server without the extension is not asked.
#[tokio::test]
async fn malformed_entries_and_servers_without_skills() {
    let mut shelf = SkillServer::new();
    let mut bad = shelf.entries[0].clone();
    bad["frontmatter"]["name"] = json!("another");
    let mut second = shelf.entries[0].clone();
    second = serde_json::from_str(&second.to_string().replace("acme/refunds", "other/refunds")).unwrap();
    shelf.entries.extend([bad, second]);
    let (client, _) = connect(shelf).await;
    let skills = client.list_skills().await.unwrap();
    let uris: Vec<_> = skills.items.iter().map(|entry| &*entry.uri).collect();
    assert_eq!(uris, [SKILL_URI, "skill://other/refunds/SKILL.md"], "both of one name");
    assert_eq!(skills.dropped.len(), 1);
    let error = client.get_skill("skill://none/SKILL.md").await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, -32602);
    assert!(client.get_skill("skill://lies/SKILL.md").await.unwrap_err().fault().is_some());

    let mut without = SkillServer::new();
    without.capabilities = json!({ "resources": {} });
    let (client, asked) = connect(without).await;
    assert_eq!(client.list_skills().await.unwrap().items, []);
    let error = client.get_skill(SKILL_URI).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotOffered("skills")), "{error}");
    assert_eq!((asked.count("skills/list"), asked.count("skills/get")), (0, 0));
}
