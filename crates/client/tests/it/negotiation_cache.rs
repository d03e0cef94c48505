//! Cached negotiation results (DE-09): exact counts of probes and handshakes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline::negotiation::FolderCache;
use bowline::{Client, Era, Server};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, CannedResponse, Control, Fault, Script};
use serde_json::{Value, json};

use crate::support::{RunningServer, http, stdio};

/// Connects like a separate process, sharing only the folder. Returns the era.
async fn connect_once(server: &Server, folder: &Path) -> Era {
    let cache = Arc::new(FolderCache::new(folder));
    let client = Client::builder(server.clone()).negotiation_cache(cache).connect().await.unwrap();
    let era = client.peer().await.unwrap().era();
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    era
}

/// Returns the number of probes and handshakes since the last call.
fn negotiation_counts(server: &Control) -> (usize, usize) {
    let asked = (server.count("server/discover"), server.count("initialize"));
    server.clear_received();
    asked
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
}

async fn start_both(script: Script) -> [RunningServer; 2] {
    [RunningServer::Http(script.clone().run().await), RunningServer::Stdio(script.stdio().await)]
}

#[tokio::test]
async fn de_09_only_the_first_process_probes_a_legacy_server() {
    for server in start_both(testkit::server().legacy().tool("echo")).await {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(connect_once(&server.server(), folder.path()).await, Era::Legacy);
        assert_eq!(negotiation_counts(&server), (1, 1));
        for _ in 0..2 {
            assert_eq!(connect_once(&server.server(), folder.path()).await, Era::Legacy);
            assert_eq!(negotiation_counts(&server), (0, 1));
        }
        assert_eq!(files(folder.path()).len(), 1);
    }
}

#[tokio::test]
async fn de_09_connections_of_one_process_share_what_they_find() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let close = async |client: bowline::Result<Client>| client.unwrap().close().await;
    close(Client::connect(http(&server)).await).await;
    assert_eq!(negotiation_counts(&server), (1, 1));
    close(Client::connect(http(&server)).await).await;
    assert_eq!(negotiation_counts(&server), (0, 1));
    close(Client::builder(http(&server)).without_negotiation_cache().connect().await).await;
    assert_eq!(negotiation_counts(&server), (1, 1));
}

/// A server that became modern is detected in the same attempt, whatever it answers to the
/// handshake.
#[tokio::test]
async fn de_09_an_upgraded_server_is_found() {
    // The second element is the number of handshakes: one that is cut off is sent once more.
    let refusals = [
        (None, 1),
        (Some(Fault::status(400)), 1),
        (Some(Fault::status(404)), 1),
        (Some(Fault::status(500)), 1),
        (Some(Fault::response(CannedResponse::new(200).html("<h1>hello</h1>"))), 1),
        (Some(Fault::error(-32600, "no")), 1),
        (Some(Fault::close()), 2),
    ];
    for (refusal, handshakes) in refusals {
        let server = testkit::server().legacy().tool("echo").run().await;
        let folder = tempfile::tempdir().unwrap();
        connect_once(&http(&server), folder.path()).await;
        server.edit(Script::modern);
        server.clear_received();
        if let Some(refusal) = refusal.clone() {
            server.arm(refusal.on("initialize").always());
        }
        assert_eq!(connect_once(&http(&server), folder.path()).await, Era::Modern, "{refusal:?}");
        assert_eq!(negotiation_counts(&server), (1, handshakes), "{refusal:?}");
        assert_eq!(connect_once(&http(&server), folder.path()).await, Era::Modern, "{refusal:?}");
        assert_eq!(negotiation_counts(&server), (1, 0), "{refusal:?}");
    }
}

#[tokio::test]
async fn de_09_an_upgraded_process_that_ends_on_a_handshake_is_found() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let folder = tempfile::tempdir().unwrap();
    connect_once(&stdio(&server), folder.path()).await;
    server.control().edit(Script::modern);
    server.arm(Fault::exit(1).on("initialize").always());
    server.control().clear_received();
    assert_eq!(connect_once(&stdio(&server), folder.path()).await, Era::Modern);
    assert_eq!((negotiation_counts(&server.control()), server.runs()), ((1, 1), 3));
}

#[tokio::test]
async fn de_09_a_downgraded_server_is_found() {
    for server in start_both(testkit::server().modern().tool("echo")).await {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(connect_once(&server.server(), folder.path()).await, Era::Modern);
        assert_eq!(negotiation_counts(&server), (1, 0));
        server.edit(Script::legacy);
        assert_eq!(connect_once(&server.server(), folder.path()).await, Era::Legacy);
        assert_eq!(negotiation_counts(&server), (1, 1));
        assert_eq!(connect_once(&server.server(), folder.path()).await, Era::Legacy);
        assert_eq!(negotiation_counts(&server), (0, 1));
    }
}

#[tokio::test]
async fn de_09_the_older_transport_is_opened_first_where_it_was_found() {
    let server = testkit::server().http_sse().tool("echo").run().await;
    let folder = tempfile::tempdir().unwrap();
    let http = http(&server);
    connect_once(&http, folder.path()).await;
    // POST refused the probe and the handshake; the handshake was repeated on the stream.
    assert_eq!((server.count("GET"), negotiation_counts(&server)), (1, (1, 2)));
    connect_once(&http, folder.path()).await;
    assert_eq!((server.count("GET"), negotiation_counts(&server)), (1, (0, 1)));
    // Where the configuration forbids the transport, the record is not used.
    let strict = http.clone().without_fallback().unwrap();
    let cache = Arc::new(FolderCache::new(folder.path()));
    Client::builder(strict).negotiation_cache(cache).connect().await.unwrap_err();
    assert_eq!((server.count("GET"), negotiation_counts(&server)), (0, (1, 1)));
    // The server is replaced by one that speaks only Streamable HTTP.
    server.edit(|_| testkit::server().legacy().tool("echo").no_get_stream());
    assert_eq!(connect_once(&http, folder.path()).await, Era::Legacy);
    assert_eq!(negotiation_counts(&server), (1, 1));
    assert_eq!(connect_once(&http, folder.path()).await, Era::Legacy);
    assert_eq!(negotiation_counts(&server), (0, 1));
}

/// A host that prefers the handshake also finds HTTP+SSE, and uses its record the next time.
#[tokio::test]
async fn de_09_a_preferred_handshake_finds_the_older_transport_once() {
    let server = testkit::server().http_sse().tool("echo").run().await;
    let folder = tempfile::tempdir().unwrap();
    let connect = async || {
        let cache = Arc::new(FolderCache::new(folder.path()));
        let builder = Client::builder(http(&server)).negotiation_cache(cache).begin_with(Era::Legacy);
        builder.connect().await.unwrap().close().await;
    };
    connect().await;
    assert_eq!((server.count("GET"), negotiation_counts(&server)), (1, (1, 2)));
    connect().await;
    assert_eq!((server.count("GET"), negotiation_counts(&server)), (1, (0, 1)));
}

/// A host that prefers the handshake leaves no record that hides the modern era from others.
#[tokio::test]
async fn de_09_a_preferred_handshake_leaves_no_record() {
    let server = testkit::server().dual().tool("echo").run().await;
    let folder = tempfile::tempdir().unwrap();
    let cache = Arc::new(FolderCache::new(folder.path()));
    let builder = Client::builder(http(&server)).negotiation_cache(cache).begin_with(Era::Legacy);
    builder.connect().await.unwrap().close().await;
    assert_eq!(negotiation_counts(&server), (0, 1));
    assert_eq!(connect_once(&http(&server), folder.path()).await, Era::Modern);
    assert_eq!(negotiation_counts(&server), (1, 0));
}

#[tokio::test]
async fn de_09_a_record_that_is_damaged_or_too_old_is_not_used() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let folder = tempfile::tempdir().unwrap();
    connect_once(&http(&server), folder.path()).await;
    let [file] = &files(folder.path())[..] else { panic!("one file") };
    let good: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut old = good.clone();
    old["asked_at"] = (good["asked_at"].as_u64().unwrap() - 24 * 60 * 60).into();
    for text in [old.to_string(), good.to_string()[..30].to_owned(), String::new(), "\u{fffd}{}".to_owned()] {
        std::fs::write(file, &text).unwrap();
        server.clear_received();
        connect_once(&http(&server), folder.path()).await;
        assert_eq!(negotiation_counts(&server), (1, 1), "{text}");
        // The damaged record was replaced.
        connect_once(&http(&server), folder.path()).await;
        assert_eq!(negotiation_counts(&server), (0, 1), "{text}");
    }
}

/// An unusable folder disables the cache only.
#[tokio::test]
async fn de_09_a_folder_that_cannot_be_made_is_no_failure() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for _ in 0..2 {
        assert_eq!(connect_once(&http(&server), &file.join("below")).await, Era::Legacy);
        assert_eq!(negotiation_counts(&server), (1, 1));
    }
}
