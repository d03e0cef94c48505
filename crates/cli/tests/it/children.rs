//! The environment of programs that bowline starts, and what a process list shows of them: each
//! gets the credentials that its own entry names, and no others.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use bowline_testkit::canary::{self, test_secret};
use bowline_testkit::{self as testkit, StdioServer};
use tempfile::TempDir;

use crate::context::Command;
use crate::login::LoginSite;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Variables in bowline's environment that each hold a credential. Entries name the first four.
const VARIABLES: [(&str, &str); 7] = [
    ("ROPE_TOKEN", "rope"),
    ("OTHER_TOKEN", "other"),
    ("PROGRAM_TOKEN", "program"),
    ("HOOK_TOKEN", "hook"),
    ("MODEL_KEY", "model"),
    ("BOWLINE_PASSPHRASE", "passphrase"),
    ("VALKEY_URL", "valkey"),
];

/// Programs that each write down their environment and arguments. The dumps lie outside the context
/// because they contain credentials.
struct EnvironmentDumps(TempDir);

impl EnvironmentDumps {
    /// Makes a shell line that writes a dump atomically under this name. Hooks of several events
    /// run at once, so each has its own temporary file.
    fn dump_command(&self, name: &str) -> String {
        let file = self.0.path().join(name);
        let file = file.display();
        format!("cat /proc/$$/environ /proc/$$/cmdline > {file}.$$; mv {file}.$$ {file}")
    }

    /// Waits for a dump and returns it.
    async fn wait_for_dump(&self, name: &str) -> Vec<u8> {
        let file = self.0.path().join(name);
        let looking = async {
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, looking).await.unwrap_or_else(|_| panic!("{name} is started"));
        std::fs::read(&file).unwrap()
    }

    /// Makes the entry of a server that is started by a shell which writes a dump first.
    fn server_entry(&self, name: &str, variable: &str, server: &StdioServer) -> String {
        let command = server.command();
        let env: Vec<_> = command.env.iter().map(|(name, value)| format!("{name} = '{value}', ")).collect();
        let (line, program, env) = (self.dump_command(name), command.program.display(), env.concat());
        format!(
            "[servers.{name}]\ncommand = '/bin/sh'\nargs = ['-c', '{line}; exec \"$0\"', '{program}']\n\
             env = {{ {env}API_TOKEN = '${{{variable}}}' }}\n"
        )
    }
}

fn with_variables(mut command: Command) -> Command {
    command.envs(VARIABLES.map(|(name, kind)| (name, test_secret(kind))));
    command
}

/// Checks that exactly these credentials occur, in plain text, and no others in any encoding.
fn assert_holds_only(what: &str, bytes: &[u8], kinds: &[&str], store_key: &str) {
    let expected: Vec<String> = kinds.iter().map(|kind| test_secret(kind)).collect();
    for one in &expected {
        assert!(canary::find_value(bytes, one, &[]).is_some(), "{what} does not get {one}");
    }
    let allowed: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(canary::find_secret(bytes, &allowed), None, "{what}");
    assert_eq!(canary::find_value(bytes, store_key, &[]), None, "{what}");
}

/// Returns a process and all its descendants.
fn process_tree(root: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: HashMap<u32, u32> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let is_below = |pid: &u32| {
        std::iter::successors(Some(*pid), |pid| parents.get(pid).copied()).any(|above| above == root)
    };
    let mut family: Vec<u32> = parents.keys().copied().filter(is_below).collect();
    family.sort_unstable();
    family
}

#[tokio::test]
async fn each_program_gets_its_own_credentials_and_no_others() {
    let site = LoginSite::new().await;
    let dumps = EnvironmentDumps(tempfile::tempdir().unwrap());

    // The program that opens the login page.
    let browser = crate::browser::Browser::new(&site.context);
    let opener = dumps.0.path().join("opener");
    let script =
        format!("#!/bin/sh\n{}\nexec {} \"$@\"\n", dumps.dump_command("browser"), browser.program.display());
    write_program(&opener, &script);
    let mut login = with_variables(site.bowline(&["login", "docs"]));
    login.env("BROWSER", &opener);
    let person = crate::pty::Person::sits_at(login);
    let told = browser.opened();
    let page = testkit::Browser::new().login(told.strip_prefix("1|").expect("one argument")).await;
    assert_eq!((page.status, person.leaves().code), (200, 0));
    let key = std::fs::read_to_string(site.context.path("home/.local/state/bowline/store.key")).unwrap();
    let key = key.trim();
    // The browser is the person's own and gets their environment as if they had started it, but
    // nothing that was made for the login.
    let all = VARIABLES.map(|(_, kind)| kind);
    assert_holds_only("the browser", &dumps.wait_for_dump("browser").await, &all, key);

    // Everything that a running bowline starts.
    let (rope, other) = (testkit::server().tool("echo").stdio().await, testkit::server().stdio().await);
    let keyed = testkit::server().tool("echo").run().await;
    let headers = format!("{}; echo {{\\\"X-Key\\\":\\\"$KEY\\\"}}", dumps.dump_command("program"));
    site.configure(&format!(
        "{}{}[servers.keyed]\nurl = '{}'\n[servers.keyed.headers_command]\ncommand = '/bin/sh'\n\
         args = ['-c', '''{headers}''']\nenv = {{ KEY = '${{PROGRAM_TOKEN}}' }}\n\
         [[hooks]]\ncommand = '/bin/sh'\nargs = ['-c', '{}']\nenv = {{ KEY = '${{HOOK_TOKEN}}' }}\n\
         [sampling]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\nmodel = 'small'\n\
         key_env = 'MODEL_KEY'\n",
        dumps.server_entry("rope", "ROPE_TOKEN", &rope),
        dumps.server_entry("other", "OTHER_TOKEN", &other),
        keyed.url(),
        dumps.dump_command("hook"),
    ));
    let mut watching =
        with_variables(site.bowline(&["watch", "-vvv"])).spawn_async().expect("bowline starts");
    for name in ["rope", "other", "program", "hook"] {
        assert_holds_only(name, &dumps.wait_for_dump(name).await, &[name], key);
    }
    // All programs run with what they need: the login is in use, and so are the headers.
    let has = |name: &'static str, kind: &'static str| {
        move |received: &testkit::ReceivedMessage| {
            received.header(name).is_some_and(|value| value.contains(kind))
        }
    };
    site.server.wait_for(has("authorization", "tk-secret-access-"), TEST_TIMEOUT).await;
    keyed.wait_for(has("x-key", "tk-secret-program-"), TEST_TIMEOUT).await;
    for server in [&rope, &other] {
        server.wait_until(|server| !server.received().is_empty(), TEST_TIMEOUT).await;
    }

    // What every user can see of them, and what their owner can.
    let pid = watching.id().expect("it runs");
    let family = process_tree(pid);
    assert!(family.len() >= 4, "two servers and a watchdog run below {pid}: {family:?}");
    for each in family {
        let Ok(cmdline) = std::fs::read(format!("/proc/{each}/cmdline")) else { continue };
        assert_holds_only(
            &format!("the command line {}", String::from_utf8_lossy(&cmdline)),
            &cmdline,
            &[],
            key,
        );
        // Bowline's own memory, and with it its environment, is readable by root alone.
        let Ok(environ) = std::fs::read(format!("/proc/{each}/environ")) else { continue };
        let kinds = VARIABLES.map(|(_, kind)| kind);
        let own: Vec<&str> = kinds.into_iter().filter(|kind| contains_credential(&environ, kind)).collect();
        let name = format!("process {each}, {}", String::from_utf8_lossy(&cmdline));
        match (each == pid, own.len()) {
            (true, _) => assert_holds_only(&name, &environ, &kinds, key),
            // A server, or the shell in front of it, has the one credential of its entry.
            (false, 1) => assert_holds_only(&name, &environ, &own, key),
            (false, _) => assert_holds_only(&name, &environ, &[], key),
        }
    }
    watching.kill().await.expect("it is there");
}

fn contains_credential(bytes: &[u8], kind: &str) -> bool {
    canary::find_value(bytes, &test_secret(kind), &[]).is_some()
}

fn write_program(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;

    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
