//! Servers that run on Python.

use std::path::Path;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use serde_json::json;

use crate::expected_call::ExpectedCall;
use crate::peer_server::{PeerServer, required_variable};
use crate::site::{PROGRAMS, REPOSITORY, Site};

pub(crate) fn all(site: &Site) -> Vec<PeerServer> {
    vec![fastmcp(), git(site), fetch(site), time()]
}

/// The server of our tests with FastMCP, whose lists have small pages.
fn fastmcp() -> PeerServer {
    let rope = json!({"name": "manila", "meters": 2.5});
    let cut = ExpectedCall::with_structure("cut", rope.clone(), r#"{"name":"manila","meters":2.5}"#, rope);
    let double = ExpectedCall::with_structure("double", json!({"number": 21}), "42", json!({"result": 42}));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/tests/servers/fastmcp_server.py");
    let script = script.into_os_string().into_string().expect("UTF-8");
    PeerServer {
        name: "ropes",
        command: vec![required_variable("BOWLINE_FASTMCP_PYTHON"), script, "stdio".to_owned()],
        settings: String::new(),
        tools: &[
            "cut",
            "double",
            "fail",
            "pictures",
            "count",
            "say",
            "greet",
            "hang",
            "hung_so_often",
            "process_id",
        ],
        calls: vec![cut.clone(), double],
        calls_after_kill: vec![cut],
    }
}

fn git(site: &Site) -> PeerServer {
    let repository = site.text(REPOSITORY);
    let call = |tool, mut arguments: serde_json::Value, text: String| {
        arguments["repo_path"] = json!(repository);
        ExpectedCall::with_text(tool, arguments, text)
    };
    let add = call("git_add", json!({"files": ["knot.txt"]}), "Files staged successfully".to_owned());
    let commit = call(
        "git_commit",
        json!({"message": "Tie a bowline"}),
        format!("Changes committed successfully with hash {COMMIT}"),
    );
    let log = call(
        "git_log",
        json!({}),
        format!(
            "Commit history:\nCommit: {COMMIT}\nAuthor: Ada\nDate: 2026-01-02 03:04:05+00:00\n\
             Message: Tie a bowline\n"
        ),
    );
    let status = call(
        "git_status",
        json!({}),
        "Repository status:\nOn branch main\nnothing to commit, working tree clean".to_owned(),
    );
    let person = |role| {
        format!(
            "GIT_{role}_NAME = 'Ada', GIT_{role}_EMAIL = 'ada@example.test', GIT_{role}_DATE = '1767323045 +0000'"
        )
    };
    PeerServer {
        name: "git",
        command: module("mcp_server_git", &["--repository", &repository]),
        settings: format!("env = {{ {}, {} }}", person("AUTHOR"), person("COMMITTER")),
        tools: &[
            "git_status",
            "git_diff_unstaged",
            "git_diff_staged",
            "git_diff",
            "git_commit",
            "git_add",
            "git_reset",
            "git_log",
            "git_create_branch",
            "git_checkout",
            "git_show",
            "git_branch",
        ],
        calls: vec![add, commit, log.clone(), status.clone()],
        calls_after_kill: vec![log, status],
    }
}

/// It reads the `robots.txt` of the page first.
fn fetch(site: &Site) -> PeerServer {
    let url = site.page.url();
    let page = ExpectedCall::with_text(
        "fetch",
        json!({ "url": url }),
        format!("Contents of {url}:\nKnots\n\n# Bowline\n\nIt does not slip."),
    );
    let path = std::env::var("PATH").expect("UTF-8");
    PeerServer {
        name: "fetch",
        command: module("mcp_server_fetch", &["--allow-private-ips"]),
        settings: format!("env = {{ PATH = {:?} }}", format!("{}:{path}", site.text(PROGRAMS))),
        tools: &["fetch"],
        calls: vec![page.clone()],
        calls_after_kill: vec![page],
    }
}

/// It converts times of today, in the zone that it converts from.
fn time() -> PeerServer {
    let tokyo = TimeZone::fixed(Offset::constant(9));
    let today = Timestamp::now().to_zoned(tokyo).date();
    let convert = convert_time(today).or(convert_time(today.tomorrow().expect("a date")));
    PeerServer {
        name: "time",
        command: module("mcp_server_time", &["--local-timezone", "UTC"]),
        settings: String::new(),
        tools: &["get_current_time", "convert_time"],
        calls: vec![convert.clone()],
        calls_after_kill: vec![convert],
    }
}

/// Converts a time of this date between zones without daylight saving time.
fn convert_time(date: Date) -> ExpectedCall {
    let weekday = date.strftime("%A");
    let arguments =
        json!({"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "Asia/Kolkata"});
    let text = format!(
        r#"{{
  "source": {{
    "timezone": "Asia/Tokyo",
    "datetime": "{date}T16:30:00+09:00",
    "day_of_week": "{weekday}",
    "is_dst": false
  }},
  "target": {{
    "timezone": "Asia/Kolkata",
    "datetime": "{date}T13:00:00+05:30",
    "day_of_week": "{weekday}",
    "is_dst": false
  }},
  "time_difference": "-3.5h"
}}"#
    );
    let structure = serde_json::from_str(&text).expect("JSON");
    ExpectedCall::with_structure("convert_time", arguments, text, structure)
}

/// Returns the command that runs a module of `interop/servers-python`.
fn module(name: &str, args: &[&str]) -> Vec<String> {
    let python = required_variable("BOWLINE_SERVERS_PYTHON");
    [&[&*python, "-m", name][..], args].concat().into_iter().map(str::to_owned).collect()
}

/// The id of the commit: its content, author and date are given.
const COMMIT: &str = "69ae518757ff42528af55cb76651479c4ebdab95";
