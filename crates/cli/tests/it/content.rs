//! How results are printed: content of every kind, structured content, and schema violations.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_testkit::{self as testkit, Resource, Script, Tool};
use image::ImageFormat;
use serde_json::{Value, json};

use crate::context::{Command, Context, filters};

/// Makes a picture of one color, in Base64.
fn picture(format: ImageFormat) -> String {
    let mut file = Cursor::new(Vec::new());
    image::RgbImage::from_pixel(8, 8, image::Rgb([200, 30, 30])).write_to(&mut file, format).unwrap();
    STANDARD.encode(file.into_inner())
}

/// Makes a server whose tool `show` returns this result.
fn server_showing(result: Value) -> Script {
    testkit::server().tool_fn("show", json!({"type": "object"}), move |_| result.clone())
}

/// Runs a command with its temporary files in the context.
fn run(context: &Context, mut command: Command) -> String {
    std::fs::create_dir_all(context.path("tmp")).unwrap();
    command.env("TMPDIR", context.path("tmp")).env("TMP", context.path("tmp"));
    context.run(command)
}

macro_rules! snapshot {
    ($shown:expr, @$expected:literal) => {
        let mut filters = filters();
        filters.push((r"bowline-[0-9a-f]{10}", "bowline-[RUN]"));
        insta::with_settings!({ filters => filters }, {
            insta::assert_snapshot!($shown, @$expected);
        });
    };
}

// TL-04: one result with all five kinds and an unknown one.
#[tokio::test]
async fn content_of_every_kind() {
    let context = Context::new();
    let server = server_showing(json!({"content": [
        {"type": "text", "text": "some text\n", "annotations": {"audience": ["assistant"]}},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "annotations": {"audience": ["user"], "priority": 0.25}},
        {"type": "audio", "data": "not base64", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "mimeType": "text/plain", "size": 2048},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAEC/w=="}},
        {"type": "hologram", "data": [1]},
        {"type": "text"},
    ]}))
    .run()
    .await;
    context.user_config(&format!("[servers.rope]\nurl = '{}'\n", server.url()));
    snapshot!(run(&context, context.bowline(["call", "rope", "show"])), @r#"
    exit: 0
    --- stdout
    some text
    [image image/png, 5 B, saved to [TMP]/tmp/bowline-[RUN]/show-1.png, for the user, priority 0.25]
    [audio audio/wav, not valid Base64]
    [link file:///a.txt (a) text/plain, 2.0 kB]
    [resource file:///b.txt]
    inside
    [resource file:///c.bin]
    [binary, 4 B, saved to [TMP]/tmp/bowline-[RUN]/show-1.bin]
    [content of the unknown type `hologram`]
    {
      "data": [
        1
      ],
      "type": "hologram"
    }
    --- stderr
    note: to read a link: bowline read rope URI
    note: a part of the result was left out: content[7].text: expected a string, found nothing
    ---
    "#);
    let out = context.path("out").display().to_string();
    let saved = run(&context, context.bowline(["call", "rope", "show", "--save", &out]));
    assert!(saved.contains("[image image/png, 5 B, saved to [TMP]/out/show-1.png, for the user"), "{saved}");
    assert_eq!(std::fs::read(context.path("out/show-1.png")).unwrap(), b"hello");
}

#[tokio::test]
async fn image_type_comes_from_the_bytes() {
    let context = Context::new();
    let jpeg = picture(ImageFormat::Jpeg);
    let server =
        server_showing(json!({"content": [{"type": "image", "data": jpeg, "mimeType": "image/png"}]}))
            .run()
            .await;
    let shown = run(&context, context.bowline(["call", &server.url(), "show"]));
    assert!(shown.contains("[image image/jpeg (said to be image/png), "), "{shown}");
    assert!(shown.contains("/show-1.jpg]"), "{shown}");
}

// RS-06: audience and priority are only hints, shown where a person reads.
#[cfg(unix)]
#[tokio::test]
async fn the_audience_of_a_text_is_shown() {
    let context = Context::new();
    let server = server_showing(json!({"content": [
        {"type": "text", "text": "for both", "annotations": {"audience": ["user", "assistant"]}},
        {"type": "text", "text": "for the model", "annotations": {"audience": ["assistant"], "priority": 1}},
    ]}))
    .run()
    .await;
    let command = context.bowline(["call", "-q", "--color", "never", &server.url(), "show"]);
    let shown = crate::terminal::on_terminal_of(60, command).replace("\r\n", "\n");
    assert_eq!(shown, "for both\n[for the assistant, priority 1]\nfor the model\n");
}

#[cfg(unix)]
#[tokio::test]
async fn images_are_drawn_where_the_terminal_can() {
    let context = Context::new();
    let png = picture(ImageFormat::Png);
    let server =
        server_showing(json!({"content": [{"type": "image", "data": png, "mimeType": "image/png"}]}))
            .run()
            .await;
    let on_terminal = |vars: &[(&str, &str)], flags: &[&str]| {
        let mut command = context.bowline(["call", "-q", "--color", "never", &server.url(), "show"]);
        command.args(flags).envs(vars.iter().copied()).env("TMPDIR", context.path("."));
        crate::terminal::on_terminal_of(60, command)
    };
    let kitty = on_terminal(&[("KITTY_WINDOW_ID", "1")], &[]);
    let (drawn, aside) = kitty.split_once("\r\n").unwrap();
    let sent = drawn.strip_prefix("\x1b_Ga=T,f=100,q=2,m=0;").and_then(|rest| rest.strip_suffix("\x1b\\"));
    let sent = STANDARD.decode(sent.unwrap_or_else(|| panic!("{drawn:?}"))).unwrap();
    let pixels = |file: &[u8]| image::load_from_memory(file).unwrap().into_rgba8();
    assert_eq!(pixels(&sent), pixels(&STANDARD.decode(&png).unwrap()));
    assert!(aside.starts_with("[image image/png, ") && aside.contains(", 8x8]"), "{aside}");
    let iterm = on_terminal(&[("TERM_PROGRAM", "iTerm.app")], &[]);
    assert!(iterm.starts_with("\x1b]1337;File=inline=1;size="), "{iterm:?}");
    let sixel = on_terminal(&[], &["--images", "sixel"]);
    assert!(sixel.starts_with("\x1bP0;1;0q\"1;1;8;8#0;2;"), "{sixel:?}");
    // Neither requested nor possible: the image goes into a file.
    for saved in
        [on_terminal(&[("KITTY_WINDOW_ID", "1")], &["--images", "none"]), on_terminal(&[("TMUX", "x")], &[])]
    {
        assert!(!saved.contains('\x1b') && saved.contains("saved to "), "{saved:?}");
    }
}

/// An image that would unpack to more than memory allows is not decoded, and one too large to draw
/// is saved in pieces.
#[tokio::test]
async fn hostile_images_are_only_saved() {
    let context = Context::new();
    let bomb = {
        let mut png = STANDARD.decode(picture(ImageFormat::Png)).unwrap();
        png[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        STANDARD.encode(png)
    };
    let large = format!("{}{}", STANDARD.encode(b"\x89PNG\r\n\x1a\n...."), "AAAA".repeat(5_700_000));
    let block = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
    let server = server_showing(json!({"content": [block(&bomb), block(&large)]})).run().await;
    let shown = run(&context, context.bowline(["call", "--images", "kitty", &server.url(), "show"]));
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with('[')).collect();
    assert!(
        lines[0].contains(", damaged, saved to ") || lines[0].contains("too many pixels"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("[image image/png, 17 MB, too large to draw, saved to "), "{}", lines[1]);
    assert!(!shown.contains('\x1b'), "nothing is drawn");
}

/// A message above the size limit is refused as a whole, with a clear error.
#[tokio::test]
async fn a_message_above_the_limit_is_refused_with_a_clear_error() {
    let context = Context::new();
    let data = "A".repeat(65 * 1024 * 1024);
    let server =
        server_showing(json!({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}))
            .run()
            .await;
    let shown = run(&context, context.bowline(["call", "--timeout", "110s", &server.url(), "show"]));
    assert!(shown.starts_with("exit: 3\n--- stdout\n--- stderr\nerror: tools/call on "), "{shown}");
    assert!(shown.contains("sent a message larger than 64 MiB"), "{shown}");
    assert!(shown.len() < 4_000, "{}", shown.len());
}

// TL-05: structured content counts if the key is present, whatever its type.
#[tokio::test]
async fn structured_content_of_any_type() {
    let context = Context::new();
    for (value, shown) in [
        (json!(null), "null\n"),
        (json!(false), "false\n"),
        (json!(0), "0\n"),
        (json!("knot\n"), "knot\n"),
        (json!([]), "[]\n"),
        (json!([{"a": 1}]), "[\n  {\n    \"a\": 1\n  }\n]\n"),
    ] {
        let server = server_showing(json!({"content": [], "structuredContent": value})).modern().run().await;
        let output = context.bowline(["call", &server.url(), "show"]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), shown, "{value}");
        let output = context.bowline(["call", "--json", &server.url(), "show"]).output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result.get("structuredContent"), Some(&value));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_list_of_objects_is_a_table() {
    let context = Context::new();
    let list = json!([
        {"name": "bowline", "strength": 0.75, "for": "a loop that neither slips nor jams, at the end of any rope"},
        {"name": "evil\u{1b}[2J", "strength": 0.5, "for": null},
    ]);
    let text = json!({"type": "text", "text": list.to_string()});
    let server =
        server_showing(json!({"content": [text], "structuredContent": {"result": list}})).run().await;
    let command = context.bowline(["call", "-q", "--color", "never", &server.url(), "show"]);
    let shown = crate::terminal::on_terminal_of(60, command).replace("\r\n", "\n");
    snapshot!(shown, @r"
    for                                  name           strength
    a loop that neither slips nor jams…  bowline            0.75
                                         evil\u{1b}[2J       0.5
    ");
}

/// Makes a server whose tool returns this structured content for its output schema.
fn server_with_output_schema(structured: Option<Value>) -> Script {
    let mut result = json!({"content": [{"type": "text", "text": "twelve"}]});
    if let Some(structured) = structured {
        result["structuredContent"] = structured;
    }
    let schema =
        json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]});
    testkit::server().tool(Tool::named("count").output_schema(schema).result(result))
}

// TL-06: a violation is reported, and the content is still printed.
#[tokio::test]
async fn a_schema_violation_is_reported_and_the_content_shown() {
    let context = Context::new();
    let server = server_with_output_schema(Some(json!({"count": "twelve"}))).run().await;
    snapshot!(run(&context, context.bowline(["call", &server.url(), "count"])), @r#"
    exit: 8
    --- stdout
    twelve
    {
      "count": "twelve"
    }
    --- stderr
    error: the result of `count` does not fit the output schema that its server gives
      because: /count: "twelve" is not of type "integer"

    hint: this is the server's fault; its result is shown above unchanged
    ---
    "#);
    let output = context.bowline(["call", "--json", &server.url(), "count"]).output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["structuredContent"], json!({"count": "twelve"}), "the server's own");
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "schema");
    assert_eq!(error["error"]["misfits"], json!(["/count: \"twelve\" is not of type \"integer\""]));
    // The check is off.
    let shown = run(&context, context.bowline(["call", &server.url(), "count", "--unchecked"]));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
}

#[tokio::test]
async fn a_result_that_fits_or_cannot_be_checked_passes() {
    let context = Context::new();
    let server = server_with_output_schema(None).run().await;
    let shown = run(&context, context.bowline(["call", &server.url(), "count"]));
    assert!(shown.starts_with("exit: 8\n") && shown.contains("it has no structured content"), "{shown}");
    let server = server_with_output_schema(Some(json!({"count": 12}))).run().await;
    let shown = run(&context, context.bowline(["call", &server.url(), "count"]));
    assert!(shown.starts_with("exit: 0\n") && shown.ends_with("--- stderr\n---"), "{shown}");
    // A schema that cannot be compiled is not blamed on anybody.
    let tool = Tool::named("count").output_schema(json!({"type": "object", "$ref": "http://127.0.0.1:9/x"}));
    let server =
        testkit::server().tool(tool.result(json!({"content": [], "structuredContent": {}}))).run().await;
    let shown = run(&context, context.bowline(["call", &server.url(), "count"]));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert!(shown.contains("note: the result of `count` was not checked: the schema refers to"), "{shown}");
}

// RS-01, RS-05
#[tokio::test]
async fn a_template_is_filled_in_and_read() {
    let context = Context::new();
    let template = "knots://{kind}/{+path}{?tag*}";
    let server = testkit::server()
        .resource_with(Resource::text("knots://a%2Fb/x/y", "found"))
        .resource_with(Resource::text("knots://a%2Fb/x/y?tag=1&tag=2", "tagged"))
        .run()
        .await;
    let url = server.url();
    let read = |pairs: &[&str]| {
        let mut command = context.bowline(["read", &url, template]);
        command.args(pairs);
        run(&context, command)
    };
    assert_eq!(read(&["kind=a/b", "path=x/y", "tag="]), "exit: 0\n--- stdout\nfound\n--- stderr\n---");
    let tagged = read(&["kind=a/b", "path=x/y", "tag=1", "tag=2"]);
    assert_eq!(tagged, "exit: 0\n--- stdout\ntagged\n--- stderr\n---");
    server.clear_received();
    snapshot!(read(&["kind=a/b"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the template `knots://{kind}/{+path}{?tag*}` also needs path=… tag=…

    hint: a variable that is to be left out is written `name=`
    ---
    ");
    snapshot!(read(&["kind=a/b", "pth=x"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `knots://{kind}/{+path}{?tag*}` has no variable `pth`

    hint: it has kind, path, tag
    ---
    ");
    assert_eq!(server.count("resources/read"), 0);
}

/// `--save` also applies to JSON output; the paths are printed on stderr.
#[tokio::test]
async fn files_are_saved_beside_json_output() {
    let context = Context::new();
    let image = json!({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"});
    let server = server_showing(json!({"content": [image]}))
        .resource_with(Resource::blob("file:///a.bin", "application/x-knot", b"hello"))
        .prompt_json(json!({"name": "look"}), json!([{"role": "user", "content": image}]))
        .run()
        .await;
    let out = context.path("out");
    for (verb, name, file) in [
        ("call", "show", "show-1.png"),
        ("read", "file:///a.bin", "a-bin-1.bin"),
        ("prompt", "look", "look-1.png"),
    ] {
        let words = [verb, &server.url(), name, "--json", "--save", out.to_str().unwrap()];
        let output = context.bowline(words).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).expect("the result alone");
        let note: Value = serde_json::from_slice(&output.stderr).expect("one object");
        assert_eq!((&note["note"]["kind"], &note["note"]["bytes"]), (&json!("saved"), &json!(5)), "{note}");
        assert_eq!(note["note"]["path"], out.join(file).to_str().unwrap());
        assert_eq!(std::fs::read(out.join(file)).unwrap(), b"hello");
        let without = context.bowline([verb, &server.url(), name, "--json"]).output().unwrap();
        assert_eq!(String::from_utf8(without.stderr).unwrap(), "");
    }
}
