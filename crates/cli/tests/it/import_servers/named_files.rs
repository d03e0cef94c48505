//! Files that are named on the command line and cannot be read.

use super::{config, write};
use crate::context::Context;

#[test]
fn a_named_file_that_cannot_be_read_fails_the_import() {
    let context = Context::new();
    write(&context, "project/good.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    for (name, text, problem) in [
        (
            "mine.json",
            "{\n  \"mcpServers\": {\n    \"a\" 1\n",
            ":3 cannot be imported: not valid JSON: expected colon after the string or word in object property",
        ),
        ("other.json", "{bad", ":1 cannot be imported: not valid JSON: expected string for object property"),
        ("x.yaml", "a: b\nc: [", ":2 cannot be imported: not valid YAML"),
        ("x.yml", "extensions: [", ":1 cannot be imported: not valid YAML"),
        ("list.json", "[]", " cannot be imported: it has none of the keys that hosts have"),
        (".mcp.json", "[]", ":1 cannot be imported: the file is not an object"),
        ("empty.json", " \n", " cannot be imported: it is empty"),
        ("bytes.json", "\u{0}", ":1 cannot be imported: not valid JSON: unexpected token"),
    ] {
        let file = format!("project/{name}");
        write(&context, &file, text);
        let words = ["import", "../good.json", &format!("../{name}"), "--yes"];
        let shown = context.run(context.bowline(words));
        let expected = format!(
            "exit: 2\n--- stdout\n--- stderr\nerror: [TMP]/project/below/../{name}{problem}; nothing was imported\n\n\
             hint: correct the file, or leave it out\n---"
        );
        assert_eq!(shown, expected, "{name}");
        assert_eq!(config(&context), None);
    }
    write(&context, "project/x.toml", "mcp_servers = ");
    let shown = context.run(context.bowline(["import", "../x.toml", "--yes"]));
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(
        shown.contains("error: [TMP]/project/below/../x.toml:1 cannot be imported: not valid TOML"),
        "{shown}"
    );
}
