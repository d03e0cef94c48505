//! Clients made with the SDKs of others, through `bowline serve` and `bowline connect`.

use crate::inspector::Inspector;
use crate::lab::{Lab, LabFault, ServerName, Way};
use crate::rmcp_client::RmcpClient;
use crate::script_client::{ScriptClient, Sdk};
use crate::tally::CallPlan;

/// Makes the calls with a script, and checks that each was right and executed once.
async fn check(sdk: Sdk, way: Way, revision: Option<&str>) {
    let mut lab = Lab::start().await;
    let target = lab.open(way).await;
    let mut client = ScriptClient::start(sdk, &lab, &target).await;
    assert_eq!(client.revision.as_deref(), revision);
    for tool in ["echo", "tie_knot"] {
        assert!(client.tools.iter().any(|name| name == tool), "no {tool} in {:?}", client.tools);
    }
    let tally = CallPlan::all_faults().run(&mut lab, &mut client).await;
    tally.assert_all_right();
    assert_eq!(lab.executions(), 10, "each call to this server was executed once");
    client.close().await;
}

macro_rules! check {
    ($($name:ident: $sdk:ident, $way:ident, $revision:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            check(Sdk::$sdk, Way::$way, $revision).await;
        })*
    };
}

check! {
    // This generation does not tell on stdio which revision it speaks.
    typescript_1_over_stdio: TypeScript1, ServeStdio, None;
    typescript_1_over_http: TypeScript1, ServeHttp, Some("2025-11-25");
    typescript_2_over_stdio: TypeScript2, ServeStdio, Some("2025-11-25");
    typescript_2_over_http: TypeScript2, ServeHttp, Some("2025-11-25");
    python_1_over_stdio: Python1, ServeStdio, Some("2025-11-25");
    python_1_over_http: Python1, ServeHttp, Some("2025-11-25");
    python_2_over_stdio: Python2, ServeStdio, Some("2026-07-28");
    python_2_over_http: Python2, ServeHttp, Some("2026-07-28");
    fastmcp_over_stdio: FastMcp, ServeStdio, Some("2026-07-28");
    fastmcp_over_http: FastMcp, ServeHttp, Some("2026-07-28");
}

/// `bowline connect` is in front of one server, which forgets its sessions or is killed.
async fn check_connect(sdk: Sdk, revision: Option<&str>) {
    const KNOTS: &[ServerName] = &[ServerName::Knots];
    const EVERYTHING: &[ServerName] = &[ServerName::Everything];
    for (servers, fault, executions) in
        [(KNOTS, LabFault::ForgetSessions, 10), (EVERYTHING, LabFault::KillServer, 0)]
    {
        let mut lab = Lab::start().await;
        let target = lab.open(Way::Connect(servers[0])).await;
        let mut client = ScriptClient::start(sdk, &lab, &target).await;
        assert_eq!(client.revision.as_deref(), revision);
        let tally = CallPlan::new(10, servers, vec![(3, fault), (6, fault)]).run(&mut lab, &mut client).await;
        tally.assert_all_right();
        assert_eq!(lab.executions(), executions, "each call to this server was executed once");
        client.close().await;
    }
}

#[tokio::test]
async fn typescript_2_through_connect() {
    check_connect(Sdk::TypeScript2, Some("2025-11-25")).await;
}

#[tokio::test]
async fn python_2_through_connect() {
    check_connect(Sdk::Python2, Some("2026-07-28")).await;
}

#[tokio::test]
async fn fastmcp_through_connect() {
    check_connect(Sdk::FastMcp, Some("2026-07-28")).await;
}

async fn check_rmcp(way: Way) {
    let mut lab = Lab::start().await;
    let target = lab.open(way).await;
    let mut client = RmcpClient::connect(&lab, &target).await;
    let tally = CallPlan::all_faults().run(&mut lab, &mut client).await;
    tally.assert_all_right();
    assert_eq!(lab.executions(), 10, "each call to this server was executed once");
    client.close().await;
}

#[tokio::test]
async fn rmcp_over_stdio() {
    check_rmcp(Way::ServeStdio).await;
}

#[tokio::test]
async fn rmcp_over_http() {
    check_rmcp(Way::ServeHttp).await;
}

/// MCP Inspector is a process and a session for each call, so there are fewer of them.
async fn check_inspector(way: Way) {
    let mut lab = Lab::start().await;
    let target = lab.open(way).await;
    let mut inspector = Inspector::new(&lab, target);
    let faults = vec![(1, LabFault::ForgetSessions), (2, LabFault::KillServer), (4, LabFault::KillGateway)];
    let plan = CallPlan::new(6, &[ServerName::Everything, ServerName::Knots], faults);
    let tally = plan.run(&mut lab, &mut inspector).await;
    tally.assert_all_right();
    assert_eq!(lab.executions(), 3, "each call to this server was executed once");
}

#[tokio::test]
async fn inspector_over_stdio() {
    check_inspector(Way::ServeStdio).await;
}

#[tokio::test]
async fn inspector_over_http() {
    check_inspector(Way::ServeHttp).await;
}
