//! Project files and folders that other users could have written or placed.

use std::os::unix::fs::symlink;

use bowline_testkit as testkit;

use super::write_marking_project;
use crate::context::Context;

/// Checks that the file can be trusted neither permanently nor for one run, and that a record of
/// earlier trust does not count.
fn assert_refused(context: &Context, what: &str) {
    for words in [["trust", "--yes"], ["tools", "evil"], ["--trust-project", "tools"]] {
        let mut command = context.bowline(words);
        if words[0] == "--trust-project" {
            command.arg("evil");
        }
        let shown = context.run(command);
        assert!(shown.starts_with("exit: 2"), "{words:?}: {shown}");
        assert!(shown.contains(&format!("cannot be trusted: {what}")), "{words:?}: {shown}");
        assert!(!context.path("started").exists(), "{words:?}: {shown}");
    }
}

#[test]
fn what_others_can_write_to_is_never_trusted() {
    let context = Context::new();
    write_marking_project(&context);
    context.trust_project();
    for (path, usual, shared) in
        [("project/bowline.toml", 0o644, 0o646), ("project", 0o755, 0o777), ("project", 0o755, 0o1777)]
    {
        context.set_mode(path, shared);
        assert_refused(&context, &format!("others can write to [TMP]/{path} (mode {shared:03o})\n\nhint: "));
        context.set_mode(path, usual);
    }
    // Precondition: the file was refused for that reason.
    context.run(context.bowline(["tools", "evil"]));
    assert!(context.path("started").exists());
}

/// Relative paths start at the link, so another project could place its own programs there.
#[test]
fn a_link_to_a_trusted_file_is_another_project() {
    let context = Context::new();
    let mark = write_marking_project(&context);
    context.trust_project();
    std::fs::create_dir(context.path("clone")).unwrap();
    context.set_mode("clone", 0o755);
    symlink(context.path("project/bowline.toml"), context.path("clone/bowline.toml")).unwrap();
    let in_clone = || {
        let mut command = context.bowline(["tools", "evil"]);
        command.current_dir(context.path("clone"));
        context.run(command)
    };
    let shown = in_clone();
    assert!(
        shown.starts_with("exit: 2") && shown.contains("clone/bowline.toml, which is not trusted"),
        "{shown}"
    );
    assert!(!mark.exists());
    // The link can be trusted itself, as long as the content behind it stays the same.
    let clone = context.path("clone");
    let shown = context.run(context.bowline(["trust".as_ref(), "--yes".as_ref(), clone.as_os_str()]));
    assert!(shown.starts_with("exit: 0"), "{shown}");
    in_clone();
    assert!(mark.exists());
    context.project_config("[servers.evil]\ncommand = 'other'\n");
    let shown = in_clone();
    assert!(shown.contains("clone/bowline.toml, which has changed since you trusted it"), "{shown}");
}

/// Only root can create files of another user, so this test checks something only as root.
#[test]
fn what_belongs_to_somebody_else_is_never_trusted() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a file of somebody else");
        return;
    }
    let context = Context::new();
    write_marking_project(&context);
    context.trust_project();
    let give = |path: &str, uid: u32| {
        std::os::unix::fs::lchown(context.path(path), Some(uid), None).unwrap();
    };
    for path in ["project/bowline.toml", "project"] {
        give(path, 12345);
        assert_refused(
            &context,
            &format!("[TMP]/{path} belongs to neither you nor root (uid 12345)\n\nhint: "),
        );
        give(path, 0);
    }
    // A link of another user leads wherever they want.
    std::fs::rename(context.path("project/bowline.toml"), context.path("real.toml")).unwrap();
    symlink(context.path("real.toml"), context.path("project/bowline.toml")).unwrap();
    context.trust_project();
    give("project/bowline.toml", 12345);
    assert_refused(&context, "[TMP]/project/bowline.toml belongs to neither you nor root (uid 12345)");
}

/// A state folder that others can write could contain any trust record.
#[test]
fn a_state_folder_of_others_says_nothing() {
    let context = Context::new();
    let mark = write_marking_project(&context);
    context.trust_project();
    context.set_mode("home/.local/state/bowline", 0o777);
    let told = "others can write to [TMP]/home/.local/state/bowline (mode 777) and may have put something there: \
                look into it, then run `chmod 700 '[TMP]/home/.local/state/bowline'`";
    let shown = context.run(context.bowline(["tools", "evil"]));
    assert!(shown.starts_with("exit: 2") && shown.contains("which is not trusted"), "{shown}");
    assert_eq!(shown.matches(told).count(), 1, "{shown}");
    let shown = context.run(context.bowline(["trust", "--yes"]));
    assert!(shown.starts_with("exit: 2") && shown.contains(told), "{shown}");
    let shown = context.run(context.bowline(["auth"]));
    assert!(shown.starts_with("exit: 2") && shown.contains(told), "{shown}");
    let shown = context.run(context.bowline(["ps"]));
    assert!(shown.starts_with("exit: 2") && shown.contains(told), "{shown}");
    assert!(!mark.exists());
    context.set_mode("home/.local/state/bowline", 0o700);
    context.run(context.bowline(["tools", "evil"]));
    assert!(mark.exists());
}

/// Cached negotiation results are neither read from such a folder nor written to it.
#[tokio::test]
async fn a_cache_folder_of_others_is_not_used() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let folder = context.path("home/.cache/bowline/negotiations");
    std::fs::create_dir_all(&folder).unwrap();
    let kept = || std::fs::read_dir(&folder).unwrap().count();
    for (mode, kept_after) in [(0o777, 0), (0o700, 1)] {
        context.set_mode("home/.cache/bowline/negotiations", mode);
        let shown = context.run(context.bowline(["tools", &server.url()]));
        let told = "nothing is stored between commands: others can write to [TMP]/home/.cache/bowline/negotiations (mode 777)";
        assert!(shown.starts_with("exit: 0"), "{shown}");
        assert_eq!((shown.contains(told), kept()), (mode == 0o777, kept_after), "{shown}");
    }
}

/// Whoever can write the trust records could have trusted anything, so none of them counts.
/// Trusting the file again does not help: the folder must be repaired.
#[test]
fn a_trust_folder_writable_by_others_is_reported_with_a_fix() {
    let context = Context::new();
    context.project_config("[servers.own]\ncommand = 'nowhere'\n").trust_project();
    let folder = "home/.local/state/bowline/trust";
    context.set_mode(folder, 0o777);
    let shown = context.run(context.bowline(["ping", "own"]));
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    let next = format!("run `chmod 700 '[TMP]/{folder}'`");
    assert!(shown.contains("others can write to") && shown.contains(&next), "{shown}");
    assert!(!shown.contains("`bowline trust"), "{shown}");
    let listed = context.run(context.bowline(["trust", "--list"]));
    assert!(listed.contains(&next), "{listed}");
    context.set_mode(folder, 0o700);
    let shown = context.run(context.bowline(["ping", "own"]));
    assert!(shown.contains("nowhere"), "{shown}");
}
