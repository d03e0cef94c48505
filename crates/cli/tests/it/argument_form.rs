//! Forms for the arguments that a call or a prompt needs and was not given.

use bowline_testkit::{self as testkit, Completion, HttpServer, Tool};
use serde_json::{Value, json};

use crate::context::{Context, snapshot};
use crate::pty::{CLEAR, CTRL_C, DOWN, ENTER, ESCAPE, HOME, Person, UP};

const BACK_TAB: &str = "\x1b[Z";

/// A tool with a parameter of every kind.
async fn booking() -> HttpServer {
    let schema = json!({
        "type": "object",
        "properties": {
            "date": {"type": "string", "format": "date", "description": "The first night\u{1b}[2J"},
            "guest": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "minLength": 2},
                "age": {"type": "integer", "minimum": 18},
            }},
            "nights": {"type": "integer", "default": 1, "minimum": 1},
            "room": {"enum": ["single", "double"]},
            "floor": {"enum": [1, 2, 3]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "beds": {"type": "array", "items": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer"},
            }}},
            "pets": {"type": "boolean"},
        },
        "required": ["date", "guest", "room", "floor", "tags", "beds"],
    });
    let echo = Tool::named("echo").schema(schema).member("description", json!("Books a room"));
    testkit::server().tool(echo).run().await
}

fn sent(stdout: &str) -> Value {
    serde_json::from_str(stdout).expect("the arguments")
}

#[tokio::test]
async fn missing_arguments_are_asked_for_in_a_form() {
    let context = Context::new();
    let server = booking().await;
    let mut person =
        Person::sits_at(context.bowline(["call", &server.url(), "echo", "floor=2", "pets=true"]));
    // What was given is not asked for.
    let first = person.sees("1/5");
    assert!(first.contains("needs more for echo") && first.contains("Books a room"), "{first}");
    // Of a list of objects, each is asked for member by member.
    assert!(first.contains("1/5  beds *") && first.contains("add one?"), "{first}");
    person.answers(ENTER, "1/5  beds[0].size *");
    person.answers("big\r", "must be a whole number");
    person.answers(&format!("{CLEAR}140\r"), "another?");
    person.answers(&format!("y{ENTER}"), "1/5  beds[1].size *");
    person.answers("80\r", "another?");
    person.answers(BACK_TAB, "> 80");
    person.answers(&format!("{CLEAR}90\r"), "another?");
    let date = person.answers(ENTER, "2/5  date *");
    assert!(
        date.contains("The first night\\u{1b}[2J") && date.contains("a date, such as 2026-07-28"),
        "{date}"
    );
    person.answers("tomorrow\r", "must be a date such as 2026-07-28");
    person.answers(&format!("{CLEAR}2026-02-30\r"), "must be a date");
    person.answers(&format!("{CLEAR}2026-12-24\r"), "3/5  guest.name *");
    person.answers("A\r", "must have at least 2 characters");
    person.answers("da\r", "> single");
    person.answers(DOWN, "> double");
    person.answers(ENTER, "5/5  tags *");
    let review = person.answers("sea view, quiet\r", "> Call");
    for line in [
        "beds: [{\"size\":140},{\"size\":90}]",
        "floor: 2",
        "guest.name: Ada",
        "guest.age: (left out)",
        "nights: (left out, default 1)",
        "pets: Yes",
        "room: double",
        "tags: [\"sea view\",\"quiet\"]",
    ] {
        assert!(review.contains(line), "{line} in {review}");
    }
    // A list that is there is edited as JSON.
    person.answers("b", "> beds: [");
    person.answers(ENTER, "a list, as JSON");
    person.answers(&format!("{CLEAR}size=1\r"), "must be JSON");
    person.answers(&format!("{CLEAR}[{{}}]\r"), "\"size\" is a required property");
    person.answers(&format!("{CLEAR}[{{\"size\": 160}}]\r"), "> beds: [{\"size\":160}]");
    // An optional one is filled in, with its default to begin with.
    person.answers("n", "> nights: (left out, default 1)");
    person.answers(ENTER, "> 1");
    person.answers(&format!("{CLEAR}0\r"), "must be at least 1");
    person.answers(&format!("{CLEAR}3\r"), "> nights: 3");
    person.answers(HOME, "> Call");
    assert_eq!(server.count("tools/call"), 0);
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    let expected = json!({
        "beds": [{"size": 160}], "date": "2026-12-24", "floor": 2, "guest": {"name": "Ada"}, "nights": 3,
        "pets": true, "room": "double", "tags": ["sea view", "quiet"],
    });
    assert_eq!(sent(&end.stdout), expected);
    assert!(!end.screen.contains("The arguments"), "{}", end.screen);
}

/// A list that needs objects asks for the first at once; any other may stay empty.
#[tokio::test]
async fn lists_of_objects_are_asked_for_item_by_item() {
    let context = Context::new();
    let line = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "description": "What it is"},
        "count": {"type": "integer"},
    }});
    let schema = json!({
        "type": "object",
        "properties": {
            "lines": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/line"}},
            "notes": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        },
        "required": ["lines", "notes"],
        "$defs": {"line": line},
    });
    let server = testkit::server().tool(Tool::named("echo").schema(schema)).run().await;
    let mut person = Person::sits_at(context.bowline(["call", &server.url(), "echo"]));
    let first = person.sees("1/2  lines[0].name *");
    assert!(first.contains("What it is"), "{first}");
    let count = person.answers("rope\r", "1/2  lines[0].count");
    assert!(count.contains("may be left out") && !count.contains("count *"), "{count}");
    person.answers(ENTER, "another?");
    // The list as a whole is checked before the next parameter.
    person.answers(ENTER, "has less than 2 items");
    person.answers(&format!("y{ENTER}"), "1/2  lines[1].name *");
    person.answers(BACK_TAB, "another?");
    person.answers(&format!("y{ENTER}"), "1/2  lines[1].name *");
    person.answers("hook\r", "1/2  lines[1].count");
    person.answers("3\r", "another?");
    let empty = person.answers(ENTER, "2/2  notes *");
    assert!(empty.contains("add one?") && empty.contains("> Yes"), "{empty}");
    let review = person.answers(&format!("n{ENTER}"), "> Call");
    assert!(review.contains("notes: []"), "{review}");
    person.presses(ENTER);
    let end = person.leaves();
    let expected = json!({"lines": [{"name": "rope"}, {"name": "hook", "count": 3}], "notes": []});
    assert_eq!((end.code, sent(&end.stdout)), (0, expected), "{}", end.screen);
}

#[tokio::test]
async fn a_form_that_is_canceled_sends_nothing() {
    let context = Context::new();
    let server = booking().await;
    for (keys, code) in [(ESCAPE, 2), ("\x04", 2), (CTRL_C, 130)] {
        let mut person = Person::sits_at(context.bowline(["call", &server.url(), "echo"]));
        person.sees("1/6  beds *");
        person.presses(keys);
        let end = person.leaves();
        assert_eq!((end.code, &*end.stdout), (code, ""), "{}", end.screen);
        assert_eq!(
            end.screen.contains("`echo` was not called: nothing was sent"),
            code == 2,
            "{}",
            end.screen
        );
    }
    assert_eq!(server.count("tools/call"), 0);
}

/// A value that was given and does not fit is asked for again, with what was given.
#[tokio::test]
async fn wrong_values_are_corrected_in_the_form() {
    let context = Context::new();
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a", "b"],
        "not": {"properties": {"b": {"const": "x"}}},
    });
    let server = testkit::server().tool(Tool::named("echo").schema(schema)).run().await;
    let mut person = Person::sits_at(context.bowline(["call", &server.url(), "echo", "a=one", "extra=1"]));
    person.sees("1/2  a *");
    person.sees("> one");
    person.answers(ENTER, "must be a whole number");
    person.answers(&format!("{CLEAR}1\r"), "2/2  b *");
    person.answers("x\r", "> Call");
    // The schema as a whole is checked too.
    person.answers(ENTER, "is not allowed for");
    person.answers(UP, "> Cancel");
    person.answers("b", "> b: x");
    person.answers(ENTER, "> x");
    person.answers(&format!("{CLEAR}y\r"), "> b: y");
    person.answers(HOME, "> Call");
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!(sent(&end.stdout), json!({"a": 1, "b": "y", "extra": "1"}), "{}", end.screen);
    assert!(end.screen.contains("`echo` has no parameter `extra`"), "{}", end.screen);
}

/// Nothing is sent that the review does not show, and a name that may be misspelled is noted before the first field.
#[tokio::test]
async fn arguments_without_a_field_are_shown_before_they_are_sent() {
    let context = Context::new();
    let schema = json!({
        "type": "object",
        "properties": {"guest": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
        "required": ["guest"],
    });
    let server = testkit::server().tool(Tool::named("echo").schema(schema)).run().await;
    let given = r#"{"gueest": {"name": "q"}, "guest": {"age": 7}}"#;
    let mut person = Person::sits_at(context.bowline(["call", &server.url(), "echo", "--args", given]));
    let first = person.sees("1/1  guest.name *");
    assert!(first.contains("`echo` has no parameter `gueest`"), "{first}");
    assert!(first.contains("did you mean `guest`?"), "{first}");
    let review = person.answers("Ada\r", "> Call");
    for line in ["guest.name: Ada", r#"gueest: {"name":"q"}  not a parameter"#, "guest.age: 7"] {
        assert!(review.contains(line), "{line} in {review}");
    }
    // There is nothing to edit.
    person.answers(HOME, "> Call");
    person.answers(&format!("{UP}{UP}"), "> guest.age: 7");
    person.answers(ENTER, "> guest.age: 7");
    person.answers(HOME, "> Call");
    person.presses(ENTER);
    let end = person.leaves();
    let expected = json!({"gueest": {"name": "q"}, "guest": {"age": 7, "name": "Ada"}});
    assert_eq!((end.code, sent(&end.stdout)), (0, expected), "{}", end.screen);
    assert_eq!(end.screen.matches("has no parameter").count(), 1, "{}", end.screen);
}

/// Without a terminal, and for machines, what is missing is an error as before.
#[tokio::test]
async fn nobody_is_asked_without_a_terminal() {
    let context = Context::new();
    let server = booking().await;
    let shown = context.run(context.bowline(["call", &server.url(), "echo"]));
    assert!(shown.starts_with("exit: 2\n") && shown.contains("\"date\" is a required property"), "{shown}");
    let end = Person::sits_at(context.bowline(["call", "--json", &server.url(), "echo"])).leaves();
    assert_eq!(end.code, 2, "{}", end.screen);
    let mut dumb = context.bowline(["call", &server.url(), "echo"]);
    dumb.env("TERM", "dumb");
    assert_eq!(Person::sits_at(dumb).leaves().code, 2);
    assert_eq!(server.count("tools/call"), 0);
}

// CP-03, PM-02: a person is asked for missing arguments, with suggestions; known ones are not asked
// for again.
#[tokio::test]
async fn cp_03_a_person_is_asked_for_what_a_prompt_needs() {
    let context = Context::new();
    let prompt = json!({"name": "visit", "arguments": [
        {"name": "pace"},
        {"name": "country", "required": true, "description": "where\u{1b}[2J to"},
        {"name": "city", "required": true},
    ]});
    let says = json!([{"role": "user", "content": {"type": "text", "text": "Go to {city}"}}]);
    let server = testkit::server()
        .prompt_json(prompt, says)
        .completes(Completion::prompt("visit", "country", &["Norway", "Nepal"]))
        .completes(Completion::prompt("visit", "city", &["Oslo"]).given("country", "Norway"))
        .run()
        .await;
    let mut person = Person::sits_at(context.bowline(["prompt", &server.url(), "visit"]));
    let screen = person.sees("Nepal");
    assert!(screen.contains("1/2  country *") && screen.contains("where\\u{1b}[2J to"), "{screen}");
    person.presses("No");
    person.sees_no("Nepal");
    person.answers("\t", "> Norway");
    let city = person.answers(ENTER, "Oslo");
    assert!(city.contains("2/2  city *"), "{city}");
    person.answers("\t", "> Oslo");
    let review = person.answers(ENTER, "> Expand");
    assert!(review.contains("country: Norway") && review.contains("pace: (left out)"), "{review}");
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!((end.code, &*end.stdout), (0, "user:\nGo to Oslo\n"), "{}", end.screen);
    let got = server.received_with_method("prompts/get").pop().expect("a request");
    assert_eq!(got.params()["arguments"], json!({"country": "Norway", "city": "Oslo"}));
}

#[tokio::test]
async fn a_dash_means_stdin() {
    let context = Context::new();
    let server = testkit::server().tool("add").run().await;
    let url = server.url();
    let shown =
        context.run_with_input(context.bowline(["call", &url, "add", "-", "b=2"]), r#"{"a": 1, "b": 9}"#);
    assert_eq!(shown, "exit: 0\n--- stdout\n3\n--- stderr\n---");
    let json = context.path("b.json").display().to_string();
    context.write("b.json", "2");
    let shown = context.run(context.bowline(["call", &url, "add", "a=1", &format!("b:=@{json}")]));
    assert_eq!(shown, "exit: 0\n--- stdout\n3\n--- stderr\n---");
    snapshot!(context.run(context.bowline(["call", &url, "add", "-", "--args", "{}"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `-` and --args or --file both give the arguments

    hint: write `bowline call SERVER TOOL [KEY=VALUE]...`, or `bowline call TOOL [KEY=VALUE]... -- COMMAND [ARG]...`
    ---
    ");
}

/// What a form looks like in narrow and ordinary windows.
#[tokio::test]
async fn a_form_fits_the_window() {
    let context = Context::new();
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file, which has to be below one of the folders that are allowed"},
            "head": {"type": "integer", "minimum": 1},
        },
        "required": ["path"],
    });
    let tool = Tool::named("echo").schema(schema).member("description", json!("Reads a file as text."));
    let server = testkit::server().tool(tool).run().await;
    let shown = |columns| {
        let call = context.bowline(["call", "--color", "never", &server.url(), "echo"]);
        let mut person = Person::sits_at_columns(columns, call);
        let field = person.sees("esc cancels");
        let review = person.answers("notes/todo.md\r", "> Call");
        person.presses(ESCAPE);
        person.leaves();
        let lines = format!("{field}\n---\n{review}");
        lines.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    snapshot!(shown(60), @"
    ? 127.0.0.1:[PORT] needs more for echo
        Reads a file as text.
    1/1  path *
        Path of the file, which has to be below one of the
        folders that are allowed
        text
      >
      enter goes on, shift-tab goes back, esc cancels
    ---
    ? 127.0.0.1:[PORT] needs more for echo
        Reads a file as text.
    The arguments
      > Call
        path: notes/todo.md  edit
        head: (left out)  edit
        Cancel  send nothing
      enter chooses, esc cancels
    ");
    snapshot!(shown(80), @"
    ? 127.0.0.1:[PORT] needs more for echo
        Reads a file as text.
    1/1  path *
        Path of the file, which has to be below one of the folders that are allowed
        text
      >
      enter goes on, shift-tab goes back, esc cancels
    ---
    ? 127.0.0.1:[PORT] needs more for echo
        Reads a file as text.
    The arguments
      > Call
        path: notes/todo.md  edit
        head: (left out)  edit
        Cancel  send nothing
      enter chooses, esc cancels
    ");
}
