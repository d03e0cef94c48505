//! Whole tool calls of host programs, through `bowline serve`.

use crate::host_program::{HostProgram, RunningHost};
use crate::lab::{Lab, Way};
use crate::tally::CallPlan;

/// Has a host make the calls in one conversation, and checks that each was right and executed once.
async fn check(host: HostProgram, way: Way, client_name: &str) {
    let mut lab = Lab::start().await;
    let target = lab.open(way).await;
    let mut running = RunningHost::start(host, &lab, &target).await;
    let tally = CallPlan::all_faults().run(&mut lab, &mut running).await;
    assert_eq!(tally.right, tally.made, "{}\n{}", tally.failures.join("\n"), running.log());
    assert_eq!(lab.executions(), 10, "each call to this server was executed once");
    assert_eq!(lab.client_name(), client_name);
    running.finish().await;
}

macro_rules! check {
    ($($name:ident: $host:ident, $way:ident, $client:literal;)*) => {
        $(#[tokio::test]
        async fn $name() {
            check(HostProgram::$host, Way::$way, $client).await;
        })*
    };
}

check! {
    claude_over_stdio: Claude, ServeStdio, "claude-code";
    claude_over_http: Claude, ServeHttp, "claude-code";
    codex_over_stdio: Codex, ServeStdio, "codex-mcp-client";
    codex_over_http: Codex, ServeHttp, "codex-mcp-client";
    opencode_over_stdio: Opencode, ServeStdio, "opencode";
    opencode_over_http: Opencode, ServeHttp, "opencode";
    qwen_over_stdio: Qwen, ServeStdio, "qwen-cli-mcp-client-knots";
    qwen_over_http: Qwen, ServeHttp, "qwen-cli-mcp-client-knots";
}
