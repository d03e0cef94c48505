//! The report: a file without secrets, to attach to a bug.

use bowline_testkit::canary::{find_secret, test_secret};
use bowline_testkit::{self as testkit, CannedResponse, Fault};

use crate::context::Context;
#[cfg(unix)]
use crate::context::toml_path;

/// A server that repeats what it was sent, in every slot that holds a secret.
#[cfg(unix)]
#[tokio::test]
async fn report_holds_no_secret() {
    use std::os::unix::fs::PermissionsExt as _;

    let context = Context::new();
    let (header, query, variable) = (test_secret("header"), test_secret("query"), test_secret("variable"));
    let body = format!("you sent {header} and {query}");
    let refused = Fault::response(CannedResponse::new(500).text(&body)).always();
    let server = testkit::server().fault(refused).run().await;
    let script = format!("echo got {variable} and {header} >&2; exit 3");
    context.user_config(&format!(
        "[servers.docs]\nurl = '{}?key={query}'\nheaders = {{ X-Key = '{header}' }}\n\
         [servers.rope]\ncommand = 'sh'\nargs = ['-c', '{script}']\nenv = {{ API_TOKEN = '{variable}' }}\n",
        server.url()
    ));
    let path = context.path("project/below/bowline-doctor.md");
    let output = context.bowline(["doctor", "--report"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let report = std::fs::read_to_string(&path).unwrap();
    assert_eq!(find_secret(report.as_bytes(), &[]), None, "{report}");
    // Precondition: the secrets were in what is reported.
    assert!(report.contains("you sent [redacted] and [redacted]"), "{report}");
    assert!(report.contains("stderr: got [redacted]"), "{report}");
    assert!(!report.contains(&context.path("home").display().to_string()), "{report}");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What a server repeats of its arguments, and what it prints of its own.
#[cfg(unix)]
#[tokio::test]
async fn report_holds_no_part_of_an_argument_and_no_token_of_a_server() {
    let context = Context::new();
    let random = "abcdefghijklmnopqrstuvwxyzabcdef";
    let url = format!("https://h.example/mcp/{random}/sse?key=In51de");
    let script = r#"
        echo "got $2, ${4#*Bearer } and ${5#*example}" >&2
        echo 'mine: sk-live-S3CR3T0123456789, Bearer aB3xY9' >&2
        exit 3
    "#;
    let script = context.write("project/rope.sh", script);
    let helper = context.write("project/helper.sh", "echo \"no $VAULT\" >&2; exit 3\n");
    let server = testkit::server().tool("echo").run().await;
    context.user_config(&format!(
        "[servers.rope]\ncommand = 'sh'\n\
         args = [{}, '--token', 'hush-1', '-H', 'Authorization: Bearer hush-header', '{url}']\n\
         [servers.docs]\nurl = '{}'\n\
         headers_command = {{ command = ['sh', {}], env = {{ VAULT = 'hush-variable' }} }}\n\
         [servers.line]\ncommand = 'python3 x --token hush-line'\n",
        toml_path(&script),
        server.url(),
        toml_path(&helper),
    ));
    context.bowline(["doctor", "--report"]).output().unwrap();
    let report = std::fs::read_to_string(context.path("project/below/bowline-doctor.md")).unwrap();
    for secret in
        ["hush-1", "hush-header", random, "In51de", "S3CR3T", "aB3xY9", "hush-variable", "hush-line"]
    {
        assert!(!report.contains(secret), "{secret}: {report}");
    }
    // Precondition: the secrets were in what is reported.
    assert!(report.contains("stderr: got [redacted], [redacted] and /mcp/[redacted]/sse"), "{report}");
    assert!(report.contains("mine: [redacted], Bearer [redacted]"), "{report}");
    assert!(report.contains("no [redacted]"), "{report}");
    assert!(report.contains("python3 x --token [redacted]"), "{report}");
}

#[test]
fn report_is_not_overwritten() {
    let context = Context::new();
    context.write("project/below/mine.md", "mine");
    let output = context.bowline(["doctor", "--report=mine.md"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("mine.md exists already, and is not overwritten"), "{stderr}");
    assert_eq!(std::fs::read_to_string(context.path("project/below/mine.md")).unwrap(), "mine");
}
