//! The comparison of the ways from a host to a server, which `cargo xtask bench hosts` prints.

use std::time::Duration;

use crate::host_program::{HostProgram, RunningHost};
use crate::lab::{Lab, LabFault, ServerName, Way};
use crate::script_client::{ScriptClient, Sdk};
use crate::tally::{CallPlan, Tally};

/// A comparison: the server that the calls go to, and the fault that strikes before every fifth of them.
struct Comparison {
    title: &'static str,
    servers: &'static [ServerName],
    fault: LabFault,
}

const CALLS: usize = 20;
/// The time that the model takes for the turn after a fault. A host that reconnects in the background can do so.
const THINKING_TIME: Duration = Duration::from_secs(2);

const COMPARISONS: [Comparison; 3] = [
    Comparison {
        title: "the server is killed and restarted three times",
        servers: &[ServerName::Everything],
        fault: LabFault::KillServer,
    },
    Comparison {
        title: "the server forgets its sessions three times, and says so with 404",
        servers: &[ServerName::Knots],
        fault: LabFault::ForgetSessions,
    },
    Comparison {
        title: "the server forgets its sessions three times, and says so with 400 and a text",
        servers: &[ServerName::Knots],
        fault: LabFault::ForgetSessionsWith400,
    },
];

async fn measure(host: HostProgram, way: Way, comparison: &Comparison) -> Tally {
    let mut lab = Lab::start().await;
    let target = lab.open(way).await;
    let mut running = RunningHost::start(host, &lab, &target).await;
    let faults = [5, 10, 15].map(|before| (before, comparison.fault)).into();
    let plan = CallPlan { pause: THINKING_TIME, ..CallPlan::new(CALLS, comparison.servers, faults) };
    plan.run(&mut lab, &mut running).await
}

/// Prints a table of a comparison, and what came of the calls that were not right.
async fn print_table(comparison: &Comparison) {
    let server = comparison.servers[0];
    let ways = [
        ("direct", Way::Direct(server)),
        ("mcp-remote", Way::McpRemote(server)),
        ("bowline connect", Way::Connect(server)),
        ("bowline serve --stdio", Way::ServeStdio),
        ("bowline serve", Way::ServeHttp),
    ];
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for host in HostProgram::ALL {
        let mut cells = Vec::new();
        for (name, way) in ways {
            let tally = measure(host, way, comparison).await;
            let cell = match tally.made {
                CALLS => tally.right.to_string(),
                made => format!("{} of {made}", tally.right),
            };
            eprintln!("{}, {name}: {cell}", host.name());
            cells.push(cell);
            failures
                .extend(tally.failures.iter().map(|failure| format!("{}, {name}: {failure}", host.name())));
        }
        rows.push(format!("| {} | {} |", host.name(), cells.join(" | ")));
    }
    println!("\nRight calls of {CALLS}; {}:\n", comparison.title);
    println!("| | {} |\n|---|{}", ways.map(|(name, _)| name).join(" | "), "---|".repeat(ways.len()));
    println!("{}\n\nThe others:\n\n{}\n", rows.join("\n"), failures.join("\n"));
}

/// Prints what each host and client says to a server of the handshake revisions, in two calls.
async fn print_handshakes() {
    let way = Way::Direct(ServerName::Knots);
    let plan = CallPlan::new(2, &[ServerName::Knots], Vec::new());
    println!("\nHandshakes, and whether two calls were right:\n");
    for host in HostProgram::ALL {
        let mut lab = Lab::start().await;
        let target = lab.open(way).await;
        let mut running = RunningHost::start(host, &lab, &target).await;
        let right = plan.run(&mut lab, &mut running).await.right == plan.calls;
        running.finish().await;
        println!("{}: {right}, {}", host.name(), lab.handshake());
    }
    for sdk in Sdk::ALL {
        let mut lab = Lab::start().await;
        let target = lab.open(way).await;
        let mut client = ScriptClient::start(sdk, &lab, &target).await;
        let right = plan.run(&mut lab, &mut client).await.right == plan.calls;
        client.close().await;
        println!("{sdk:?}: {right}, {}", lab.handshake());
    }
}

/// Prints all tables. They measure others as well, so nothing is asserted.
pub(crate) async fn print_all() {
    for comparison in &COMPARISONS {
        print_table(comparison).await;
    }
    print_handshakes().await;
}
