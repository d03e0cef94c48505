//! The search for leaked credentials that covers every test of this suite: that it finds them, and
//! that verbose commands with every credential slot filled leak none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;

use bowline_testkit::canary::test_secret;
use bowline_testkit::{self as testkit, AuthServer, SECRET_PREFIX};

use crate::context::Context;

/// Returns the failure message of a context in which `act` was run, if its check fails.
fn leak_report(act: impl FnOnce(&Context)) -> Option<String> {
    let context = Context::new();
    act(&context);
    let ended = catch_unwind(AssertUnwindSafe(|| drop(context)));
    ended.err().map(|panic| *panic.downcast::<String>().expect("a message"))
}

/// Literal credentials in the tests have a known prefix.
#[test]
fn literal_credentials_of_tests_are_recognized() {
    assert_eq!(SECRET_PREFIX, "tk-secret-");
}

#[test]
fn a_credential_in_any_output_fails_the_test() {
    let shell = |context: &Context, script: &str| {
        let mut command = context.command("sh");
        command.args(["-c", script, "sh", &test_secret("argument")]);
        command
    };
    for stream in ["", ">&2"] {
        let script = format!("echo \"a token: $1\" {stream}");
        let name = if stream.is_empty() { "stdout of " } else { "stderr of " };
        // However the command runs: to its end, with pipes that the test reads, or with unread
        // streams.
        let run: [&dyn Fn(&Context); 3] = [
            &|context| drop(shell(context, &script).output().unwrap()),
            &|context| {
                let mut command = shell(context, &script);
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                let output = command.spawn().unwrap().wait_with_output().unwrap();
                assert!([output.stdout, output.stderr].concat().starts_with(b"a token: "), "it is handed on");
            },
            &|context| assert!(shell(context, &script).spawn().unwrap().wait().unwrap().success()),
        ];
        for run in run {
            let complaint = leak_report(run).expect("it is found");
            assert!(complaint.contains(name) && complaint.contains(SECRET_PREFIX), "{complaint}");
        }
    }
    assert_eq!(leak_report(|context| drop(shell(context, "echo nothing").output().unwrap())), None);
}

#[tokio::test]
async fn a_credential_in_the_output_of_an_asynchronous_child_fails_the_test() {
    for piped in [true, false] {
        let context = Context::new();
        let mut command = context.command("sh");
        command.args(["-c", "echo \"$1\" >&2", "sh", &test_secret("argument")]);
        if piped {
            command.stderr(Stdio::piped());
        }
        let output = command.spawn_async().unwrap().wait_with_output().await.unwrap();
        assert_eq!(output.stderr.starts_with(SECRET_PREFIX.as_bytes()), piped);
        let ended = catch_unwind(AssertUnwindSafe(|| drop(context)));
        assert!(ended.is_err(), "it is found");
    }
}

#[cfg(unix)]
#[test]
fn a_credential_on_a_terminal_fails_the_test() {
    let complaint = leak_report(|context| {
        let mut command = context.command("sh");
        command.args(["-c", "echo \"$1\" >&2", "sh", &test_secret("argument")]);
        assert_eq!(crate::pty::Person::sits_at(command).leaves().code, 0);
    });
    assert!(complaint.expect("it is found").contains("terminal of "));
}

#[test]
fn a_credential_in_a_file_fails_the_test() {
    for file in ["home/log", "home/.config/bowline/config.toml", "project/below/tk-secret-name"] {
        let text =
            if file.contains(SECRET_PREFIX) { String::new() } else { format!("x\0{}", test_secret("file")) };
        let complaint = leak_report(|context| std::fs::write(context.path(file), &text).unwrap());
        assert!(complaint.expect("it is found").contains(file));
    }
    // A credential in a file that the test wrote is no leak, unless a command adds to the file.
    let config = format!("# {}\n", test_secret("file"));
    let configured = leak_report(|context| {
        context.user_config(&config);
    });
    assert_eq!(configured, None);
    let added = leak_report(|context| {
        context.user_config(&config);
        let file = context.path("home/.config/bowline/config.toml");
        std::fs::write(file, format!("{config}{}", test_secret("added"))).unwrap();
    });
    assert!(added.expect("it is found").contains("config.toml"));
}

#[test]
fn the_key_of_the_store_is_a_credential() {
    let key = "cMzpZLVjXXT9dGBkKjN0ikJvV5wvNq3XjB0Yp8rK2Yw";
    let with_key = |context: &Context, script: &str| {
        std::fs::write(context.path("home/store.key"), format!("{key}\n")).unwrap();
        drop(context.command("sh").args(["-c", script]).output().unwrap());
    };
    assert_eq!(leak_report(|context| with_key(context, "echo nothing")), None);
    assert!(leak_report(|context| with_key(context, &format!("echo {key}"))).is_some());
    let copied = leak_report(|context| {
        with_key(context, "echo nothing");
        std::fs::write(context.path("home/elsewhere"), key).unwrap();
    });
    assert!(copied.expect("it is found").contains("home/elsewhere"));
}

/// Every credential slot of the configuration and the environment, and every verb that reaches a
/// server or reads the store, at full verbosity.
#[cfg(unix)]
#[tokio::test]
async fn no_verb_prints_a_credential_at_any_verbosity() {
    use crate::login::LoginSite;

    let auth = AuthServer::builder().registers_as("client_secret_basic").scopes(&["openid", "files"]);
    let site = LoginSite::with_script(auth, |protected| protected).await;
    let keyed = testkit::server().tool("echo").resource("file:///a", "a").run().await;
    let rope = testkit::server().tool("echo").stdio().await;
    let command = rope.command();
    let env: Vec<_> = command.env.iter().map(|(name, value)| format!("{name} = '{value}', ")).collect();
    site.configure(&format!(
        "auth = {{ scope = 'openid files' }}\n\
         [servers.keyed]\nurl = '{url}?key={query}'\nheaders = {{ X-Key = '${{HEADER}}' }}\n\
         [servers.program]\nurl = '{url}'\nheaders_command = ['sh', '-c', '''echo '{{\"X-Key\":\"{program}\"}}' ''']\n\
         [servers.rope]\ncommand = '{rope}'\nenv = {{ {env}API_TOKEN = '${{VARIABLE}}' }}\n\
         [sampling]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\nmodel = 'small'\nkey_env = 'MODEL_KEY'\n",
        url = keyed.url(),
        query = test_secret("query"),
        program = test_secret("program"),
        rope = command.program.display(),
        env = env.concat(),
    ));
    site.logs_in().await;
    let export = site.context.path("logins").display().to_string();
    let verbs: [&[&str]; 19] = [
        &["tools", "docs"],
        &["call", "docs", "echo", "message=ahoy"],
        &["tools", "keyed"],
        &["call", "keyed", "echo", "message=ahoy"],
        &["resources", "keyed"],
        &["read", "keyed", "file:///a"],
        &["prompts", "keyed"],
        &["call", "program", "echo", "message=ahoy"],
        &["call", "rope", "echo", "message=ahoy"],
        &["info", "docs"],
        &["ping", "docs"],
        &["status"],
        &["ps"],
        &["auth"],
        &["config", "check"],
        &["doctor"],
        &["doctor", "docs"],
        &["auth", "export", "-o", &export, "--force"],
        &["logout", "docs"],
    ];
    for verb in verbs {
        for format in [&[][..], &["--json"]] {
            // The login is refreshed on the way, so that every kind of token occurs.
            site.auth.revoke_all_access();
            let mut command = site.bowline(&[verb, format, &["-vvv"]].concat());
            command.env("BOWLINE_LOG", "trace").env("BOWLINE_PASSPHRASE", test_secret("passphrase"));
            command.envs(
                [("HEADER", "header"), ("VARIABLE", "variable"), ("MODEL_KEY", "model")]
                    .map(|(name, kind)| (name, test_secret(kind))),
            );
            let output = command.output().unwrap();
            let shown = site.context.shown(&output);
            let again = verb[0] == "logout" && !format.is_empty();
            assert!(output.status.success() || again, "{verb:?}: {shown}");
        }
    }
    // Precondition: the slots were used.
    let sent = |name: &str, kind: &str| {
        let value = test_secret(kind);
        keyed.received().iter().any(|received| received.header(name).is_some_and(|it| it.contains(&value)))
    };
    assert!(sent("x-key", "header") && sent("x-key", "program"));
    assert!(
        site.auth.refreshes() > 3
            && site.auth.received().iter().any(|seen| seen.client_auth == "client_secret_basic")
    );
}
