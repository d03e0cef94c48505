//! Tests of the folder cache: contents, age, limits and concurrent writers.

use bowline_config::Server;

use super::*;

const LEGACY: NegotiationRecord = NegotiationRecord::new(Revision::V2025_06_18, TransportKind::Http);
const OLDER: NegotiationRecord = NegotiationRecord::new(Revision::V2024_11_05, TransportKind::EventStream);

fn cache() -> (tempfile::TempDir, FolderCache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = FolderCache::new(folder.path().join("cache").join("bowline"));
    (folder, cache)
}

fn key(path: &str) -> ServerKey {
    ServerKey::from_server(&Server::http("s", format!("https://h/{path}")).build().unwrap())
}

fn files(cache: &FolderCache) -> usize {
    fs::read_dir(&cache.folder).unwrap().count()
}

/// Writes a record of this age.
fn write_aged(cache: &FolderCache, server: &ServerKey, age: Duration) {
    cache.write(server, &Record::new(LEGACY, SystemTime::now().checked_sub(age).unwrap())).unwrap();
}

#[test]
fn a_record_is_kept_for_other_processes() {
    let (_folder, cache) = cache();
    let other = FolderCache::new(cache.folder.clone());
    assert_eq!(cache.recall(&key("a")), None);
    cache.record(&key("a"), LEGACY);
    cache.record(&key("b"), OLDER);
    assert_eq!((other.recall(&key("a")), other.recall(&key("b"))), (Some(LEGACY), Some(OLDER)));
    other.record(&key("a"), OLDER);
    other.forget(&key("b"));
    other.forget(&key("never seen"));
    assert_eq!((cache.recall(&key("a")), cache.recall(&key("b"))), (Some(OLDER), None));
}

#[test]
fn a_file_that_cannot_be_used_is_ignored_and_replaced() {
    let (_folder, cache) = cache();
    let good = serde_json::to_value(Record::new(LEGACY, SystemTime::now())).unwrap();
    let changed = |field: &str, value: serde_json::Value| {
        let mut record = good.clone();
        record[field] = value;
        record.to_string()
    };
    let broken = [
        String::new(),
        "{".to_owned(),
        "\u{0}".repeat(100),
        good.to_string()[..20].to_owned(),
        changed("version", 2.into()),
        changed("revision", "1999-01-01".into()),
        changed("transport", "pigeon".into()),
        changed("asked_at", u64::MAX.into()),
        changed("revision", "x".repeat(10_000).into()),
    ];
    for text in broken {
        private::create_folder(&cache.folder).unwrap();
        fs::write(cache.path(&key("a")), &text).unwrap();
        assert_eq!(cache.recall(&key("a")), None, "{text:.80}");
        cache.record(&key("a"), LEGACY);
        assert_eq!(cache.recall(&key("a")), Some(LEGACY), "{text:.80}");
    }
    // A folder in place of the file disables only that record.
    fs::create_dir(cache.path(&key("b"))).unwrap();
    cache.record(&key("b"), LEGACY);
    cache.forget(&key("b"));
    assert_eq!((cache.recall(&key("a")), cache.recall(&key("b"))), (Some(LEGACY), None));
}

#[test]
fn a_record_expires_after_a_day() {
    let (_folder, cache) = cache();
    let minute = Duration::from_secs(60);
    write_aged(&cache, &key("young"), MAX_AGE.checked_sub(minute).unwrap());
    write_aged(&cache, &key("old"), MAX_AGE);
    assert_eq!((cache.recall(&key("young")), cache.recall(&key("old"))), (Some(LEGACY), None));
    // A wrong clock does not keep a record for years.
    let future = SystemTime::now() + 10 * minute;
    cache.write(&key("future"), &Record::new(LEGACY, future)).unwrap();
    assert_eq!(cache.recall(&key("future")), None);
}

#[test]
fn a_record_is_rewritten_only_when_it_has_aged() {
    let (_folder, cache) = cache();
    let record = |path: &str| fs::read(cache.path(&key(path))).unwrap();
    write_aged(&cache, &key("young"), MAX_AGE / 4);
    write_aged(&cache, &key("aged"), MAX_AGE / 2);
    let before = (record("young"), record("aged"));
    for path in ["young", "aged"] {
        cache.record(&key(path), LEGACY);
    }
    assert_eq!(record("young"), before.0);
    assert_ne!(record("aged"), before.1);
}

#[test]
#[cfg(unix)]
fn cache_files_are_private_and_hold_no_secret() {
    use std::os::unix::fs::PermissionsExt as _;

    let (folder, cache) = cache();
    let server = Server::http("s", "https://h/s3cret/mcp?token=s3cret").build().unwrap();
    cache.record(&ServerKey::from_server(&server), LEGACY);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder.path().join("cache")), mode(&cache.folder)), (0o700, 0o700));
    let path = cache.path(&ServerKey::from_server(&server));
    assert_eq!(mode(&path), 0o600);
    let text = fs::read_to_string(&path).unwrap() + path.to_str().unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    // A link to the file is not followed either.
    let target = folder.path().join("target");
    fs::rename(&path, &target).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert_eq!(cache.recall(&ServerKey::from_server(&server)), None);
}

#[test]
fn there_are_never_too_many_files() {
    let (_folder, cache) = cache();
    let touch = |path: &Path, age: Duration| {
        let file = File::create(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    private::create_folder(&cache.folder).unwrap();
    for n in 0..MAX_SERVERS {
        touch(&cache.path(&key(&n.to_string())), Duration::from_secs(60 + n as u64));
    }
    let draft = |name: &str| cache.folder.join(name).with_extension(private::DRAFT_EXTENSION);
    touch(&draft("left"), Duration::from_secs(600));
    touch(&draft("current"), Duration::ZERO);
    touch(&cache.folder.join("README"), Duration::from_secs(600));
    touch(&cache.path(&key("expired")), MAX_AGE + Duration::from_secs(1));
    cache.record(&key("new"), LEGACY);
    assert_eq!(files(&cache), MAX_SERVERS + 1, "with what is not of this cache");
    assert_eq!(cache.recall(&key("new")), Some(LEGACY));
    for gone in [cache.path(&key("expired")), cache.path(&key(&(MAX_SERVERS - 1).to_string())), draft("left")]
    {
        assert!(!gone.exists(), "{}", gone.display());
    }
    assert!(draft("current").exists(), "another process is at it");
}

/// With many threads, a reader finds a whole record or none.
#[test]
fn many_writers_leave_a_whole_file() {
    let (_folder, cache) = cache();
    cache.record(&key("a"), LEGACY);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for n in 0..100 {
                    let finding = if (n + writer) % 2 == 0 { LEGACY } else { OLDER };
                    cache.record(&key("a"), finding);
                }
            });
        }
        for _ in 0..400 {
            assert!(cache.recall(&key("a")).is_some());
        }
    });
    assert_eq!(files(&cache), 1);
}
