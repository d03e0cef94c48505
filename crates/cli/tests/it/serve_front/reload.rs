//! The daemon takes over a changed configuration, and says which one it has.

use super::*;
use crate::serve_reload::next_list_change;

/// The keys in the files of the daemons that run: that of the file, and that of what is served.
fn keys(daemons: &Daemons) -> Vec<(String, String)> {
    let key_of = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).ok()?;
        let served = text.split_whitespace().nth(1)?.to_owned();
        Some((path.file_stem()?.to_str()?.to_owned(), served))
    };
    let mut keys: Vec<_> = daemons.paths("pid").into_iter().filter_map(key_of).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn hosts_of_a_daemon_follow_a_changed_configuration() {
    let context = Context::new();
    let (one, two) = (testkit::server().legacy().tool("counter"), testkit::server().legacy().tool("echo"));
    let (one, two) = (one.run().await, two.run().await);
    let (before, after) =
        (http_entry("one", &one), format!("{}{}", http_entry("one", &one), http_entry("two", &two)));
    context.user_config(&before);
    let daemons = Daemons::of(&context);
    let mut first = start(&context, &[]).await;
    assert_eq!(result_text(&first.call("counter").await), "1");
    let (key, served) = keys(&daemons).remove(0);
    assert_eq!(key, served);
    context.user_config(&after);
    next_list_change(&mut first).await;
    assert!(first.call("echo").await["result"].is_object());
    assert_eq!(one.initialize_count(), 1);
    let log = daemons.log();
    assert!(log.ends_with("note: the configuration was reloaded: 1 added (two)\n"), "{log}");
    // It does not serve what its name says any more.
    let changed = keys(&daemons).remove(0);
    assert!(changed.0 == key && changed.1 != key, "{changed:?}");
    // A host that starts now looks for the daemon of the new configuration.
    let mut second = start(&context, &[]).await;
    assert!(second.call("echo").await["result"].is_object());
    let now = keys(&daemons);
    assert!(now.len() == 2 && now.iter().all(|(_, served)| *served == changed.1), "{now:?}");
    // Both take over the old configuration, and the first daemon is what its name says again.
    context.user_config(&before);
    wait_until(|| keys(&daemons).iter().all(|(_, served)| *served == key)).await;
    let third = start(&context, &[]).await;
    assert_eq!(daemons.all().len(), 2, "it is found by its name");
    for host in [first, second, third] {
        let exit = host.close().await;
        assert_eq!(exit.status.code(), Some(0));
        assert!(!exit.stderr.contains("serves alone"), "{}", exit.stderr);
    }
}
