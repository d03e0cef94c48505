//! Export and import of logins to another machine.

use std::os::unix::fs::PermissionsExt as _;

use super::{LoginSite, wait_for_exit};
use crate::context::{Context, snapshot};
use crate::pty::{CTRL_C, ENTER, Person};

const PASSPHRASE: &str = "tk-secret-passphrase: a knot that holds";

/// Makes another machine: the same configuration, and an empty store.
fn other_machine(site: &LoginSite) -> Context {
    let other = Context::new();
    let config = std::fs::read_to_string(site.context.path("home/.config/bowline/config.toml")).unwrap();
    other.user_config(&config);
    other
}

#[tokio::test]
async fn a_login_is_taken_to_another_machine() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let file = site.context.path("logins");
    let path = file.display().to_string();
    let export = |more: &[&str]| {
        let mut command = site.bowline(&["auth", "export", "docs", "-o", &path]);
        command.args(more).env("BOWLINE_PASSPHRASE", PASSPHRASE);
        site.run(command)
    };
    snapshot!(export(&[]), @"
    exit: 0
    --- stdout
    --- stderr
    note: 1 login written to [TMP]/logins; from now on use them there or here, not both: a login that is refreshed on two machines may end on both
    ---
    ");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    snapshot!(export(&[]), @"
    exit: 2
    --- stdout
    --- stderr
    error: [TMP]/logins already exists

    hint: use --force to overwrite it
    ---
    ");
    assert!(export(&["--force"]).starts_with("exit: 0\n"));

    let other = other_machine(&site);
    let mut wrong = other.bowline(["auth", "import", &path]);
    wrong.env("BOWLINE_PASSPHRASE", "tk-secret-passphrase: a knot that slips");
    let shown = other.run(wrong).replace(&path, "[FILE]");
    snapshot!(shown, @"
    exit: 2
    --- stdout
    --- stderr
    error: cannot import [FILE]: the passphrase is wrong, or the content was changed
    ---
    ");
    let none = other.run(other.bowline(["auth", "-q"]));
    assert_eq!(none, "exit: 0\n--- stdout\n--- stderr\n---");

    let secret = other.write("passphrase", format!("{PASSPHRASE}\n"));
    let secret = secret.display().to_string();
    let imported = other.run(other.bowline(["auth", "import", &path, "--passphrase-file", &secret]));
    assert!(imported.contains("imported the login of docs"), "{imported}");
    let called = other.run(other.bowline(["call", "docs", "echo", "message=ahoy"]));
    assert!(called.contains("ahoy"), "{called}");
    assert_eq!(site.auth.authorizations(), 1);
}

/// The passphrase is asked for twice, and neither shown nor stored.
#[tokio::test]
async fn a_passphrase_is_asked_for_and_not_shown() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let path = site.context.path("logins").display().to_string();
    let mut person = Person::sits_at(site.bowline(&["auth", "export", "-o", &path]));
    person.sees("passphrase:");
    person.answers(&format!("short{ENTER}"), "8 characters");
    person.answers(&format!("{PASSPHRASE}{ENTER}"), "once more:");
    person.answers(&format!("{PASSPHRASE}!{ENTER}"), "the passphrases do not match");
    person.answers(&format!("{PASSPHRASE}{ENTER}"), "once more:");
    let screen = person.screen();
    assert!(!screen.contains("knot"), "{screen}");
    person.presses(&format!("{PASSPHRASE}{ENTER}"));
    let end = wait_for_exit(person, 0);
    assert!(end.screen.contains("1 login written to"), "{}", end.screen);

    let other = other_machine(&site);
    let mut person = Person::sits_at(other.bowline(["auth", "import", &path]));
    person.sees("passphrase:");
    person.presses(&format!("{PASSPHRASE}{ENTER}"));
    let end = wait_for_exit(person, 0);
    assert!(end.stdout.contains("imported the login of docs"), "{}", end.stdout);
}

#[tokio::test]
async fn a_refused_export_writes_nothing() {
    let site = LoginSite::new().await;
    let path = site.context.path("logins").display().to_string();
    snapshot!(site.run_args(&["auth", "export", "-o", &path]), @"
    exit: 2
    --- stdout
    --- stderr
    error: no logins are stored

    hint: `bowline login SERVER` creates one
    ---
    ");
    site.logs_in().await;
    snapshot!(site.run_args(&["auth", "export", "files", "-o", &path]), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no login for `files`

    hint: `bowline auth` lists the stored logins
    ---
    ");
    snapshot!(site.run_args(&["auth", "export", "-o", &path]), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no passphrase, as there is no terminal to ask you on

    hint: set BOWLINE_PASSPHRASE, or use --passphrase-file
    ---
    ");
    let mut person = Person::sits_at(site.bowline(&["auth", "export", "-o", &path]));
    person.sees("passphrase:");
    person.presses(CTRL_C);
    wait_for_exit(person, 130);
    assert!(!site.context.path("logins").exists());
}

/// Export and import work through a pipe, without a file.
#[tokio::test]
async fn a_login_goes_through_a_pipe() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let mut export = site.bowline(&["auth", "export", "-o", "-"]);
    let sealed = export.env("BOWLINE_PASSPHRASE", PASSPHRASE).output().unwrap().stdout;
    let other = other_machine(&site);
    std::fs::write(other.path("sealed"), sealed).unwrap();
    let mut import = other.bowline(["auth", "import", "-"]);
    import.env("BOWLINE_PASSPHRASE", PASSPHRASE).stdin(std::fs::File::open(other.path("sealed")).unwrap());
    let shown = other.run(import);
    assert!(shown.contains("imported the login of docs"), "{shown}");
}
