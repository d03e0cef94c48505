//! `bowline demo`

use serde_json::Value;

use crate::context::{Context, snapshot};

#[test]
fn the_story() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["demo"])), @r#"
    exit: 0
    --- stdout
    A small MCP server runs in this process; a client connects to it and uses it.

    1. Connect
       http://127.0.0.1:[PORT]/mcp over Streamable HTTP
       knots [VERSION], protocol 2025-11-25 (handshake and session)

    2. List
       tool     tie              Ties a knot, step by step
       tool     strength         What a knotted polyamide rope holds
       resource knot://bowline   What a bowline is

    3. Call a tool that takes its time: tie knot=bowline
       1/4 make a small loop in the rope
       2/4 bring the end up through the loop
       3/4 pass it behind the standing part
       4/4 take it back down the loop and draw it tight
       A bowline: it neither slips nor jams.

    4. Call a tool with a structured result: strength millimetres=11
       {"kilonewtons":16.0}

    5. Call a tool that fails: tie knot=granny
       isError: true: That knot slips. Ask for a bowline.

    6. Read a resource: knot://bowline
       The bowline makes a loop that holds under load and comes undone by hand.

    7. Close
       sessions left open on the server: 0

    Done in [TIME].

    Now with a server of yours:
      bowline info -- npx -y @modelcontextprotocol/server-everything
      bowline tools https://mcp.example.com/mcp
    --- stderr
    ---
    "#);
}

#[test]
fn the_story_for_machines() {
    let context = Context::new();
    let output = context.bowline(["demo", "--json"]).output().unwrap();
    let story: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(story["steps"].as_array().map(Vec::len), Some(7));
}
