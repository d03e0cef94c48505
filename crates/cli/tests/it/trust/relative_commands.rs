//! Relative commands of a trusted project are those beside its file, not those in the current
//! folder.

use bowline_testkit as testkit;

use crate::context::Context;

/// Writes a program of this name in the project and in the folder below. Each writes down whose it
/// is, in the folder it runs in.
fn write_twin_programs(context: &Context, name: &str) {
    for (folder, whose) in [("project", "the project's"), ("project/below", "somebody else's")] {
        let file = format!("{folder}/{name}");
        std::fs::write(context.path(&file), format!("#!/bin/sh\necho \"{whose}\" > ran-{name}\n")).unwrap();
        context.set_mode(&file, 0o755);
    }
}

/// Returns which of the two ran, in the project's folder.
fn which_ran(context: &Context, name: &str) -> Option<String> {
    assert!(!context.path(&format!("project/below/ran-{name}")).exists(), "it ran in the caller's folder");
    std::fs::read_to_string(context.path(&format!("project/ran-{name}"))).ok()
}

#[test]
fn a_relative_command_is_the_one_beside_the_file() {
    for command in ["command = './server'", "command = 'sh'\nargs = ['./server']"] {
        let context = Context::new();
        write_twin_programs(&context, "server");
        context.project_config(&format!("[servers.own]\n{command}\n")).trust_project();
        let shown = context.run(context.bowline(["ping", "own"]));
        assert_eq!(which_ran(&context, "server").as_deref(), Some("the project's\n"), "{command}: {shown}");
    }
}

#[tokio::test]
async fn a_relative_headers_command_is_the_one_beside_the_file() {
    let context = Context::new();
    write_twin_programs(&context, "headers");
    let server = testkit::server().tool("echo").run().await;
    let entry = format!("[servers.own]\nurl = '{}'\nheaders_command = ['./headers']\n", server.url());
    context.project_config(&entry).trust_project();
    let shown = context.run(context.bowline(["ping", "own"]));
    assert_eq!(which_ran(&context, "headers").as_deref(), Some("the project's\n"), "{shown}");
}

/// Relative commands in the user's file still refer to the current folder.
#[test]
fn a_relative_command_of_the_user_is_the_one_of_their_folder() {
    let context = Context::new();
    write_twin_programs(&context, "server");
    context.user_config("[servers.own]\ncommand = './server'\n");
    let shown = context.run(context.bowline(["ping", "own"]));
    let ran = std::fs::read_to_string(context.path("project/below/ran-server")).ok();
    assert_eq!(ran.as_deref(), Some("somebody else's\n"), "{shown}");
}
