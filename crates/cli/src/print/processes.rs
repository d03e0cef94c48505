//! Formats server processes: a tree for people, lines for pipes, JSON for machines.

use std::fmt::Write as _;
use std::time::SystemTime;

use bowline::processes::RunningServer;
use serde_json::{Value, json};

use super::table::Table;
use super::{BAD, FAINT, NAME, Printer, STRONG, clock, escape, units};

pub(crate) fn to_json(entries: &[RunningServer]) -> Value {
    let servers = entries.iter().map(|entry| {
        let processes = entry.processes.iter().map(|process| {
            json!({
                "pid": process.pid,
                "parent": process.parent,
                "depth": process.depth,
                "name": process.name,
                "memory": process.memory,
                "started": clock::utc(process.started),
                "detached": process.is_detached,
            })
        });
        json!({
            "server": entry.server,
            "owner": entry.owner,
            "orphan": entry.is_orphan,
            "started": clock::utc(entry.started),
            "memory": total_memory(entry),
            "processes": processes.collect::<Vec<_>>(),
        })
    });
    json!({ "servers": servers.collect::<Vec<_>>() })
}

/// Formats the processes for stdout.
pub(crate) fn render(entries: &[RunningServer], printer: &Printer) -> String {
    if printer.on_terminal() {
        return tree(entries, SystemTime::now(), printer);
    }
    let mut table = Table::new([""; 6]);
    for entry in entries {
        for process in &entry.processes {
            table.push_row([
                entry.server.clone(),
                owner_text(entry),
                process.pid.to_string(),
                process.parent.to_string(),
                process.memory.to_string(),
                process.name.clone(),
            ]);
        }
    }
    table.render(printer)
}

/// Formats one block for each server.
fn tree(entries: &[RunningServer], now: SystemTime, printer: &Printer) -> String {
    let mut out = String::new();
    for entry in entries {
        let up = clock::format_span(clock::since(now, entry.started));
        let style = if entry.is_orphan { BAD } else { FAINT };
        let facts = format!("{}, {}, up {up}", owner_text(entry), format_size(total_memory(entry)));
        let name = printer.paint(NAME, &escape::line(&entry.server));
        writeln!(out, "{name}  {}", printer.paint(style, &facts)).expect("writing to a string");
        let depths: Vec<_> = entry.processes.iter().map(|process| process.depth).collect();
        for (process, branch) in entry.processes.iter().zip(branches(&depths)) {
            let name = printer.paint(STRONG, &escape::line(&process.name));
            let detached =
                if process.is_detached { "  detached: it is not ended with the server" } else { "" };
            writeln!(out, "{branch}{name}  {}  {}{detached}", process.pid, format_size(process.memory))
                .expect("writing to a string");
        }
    }
    out
}

/// Returns the branch before each process, which hangs below the one that started it.
fn branches(depths: &[usize]) -> Vec<String> {
    let branch = |(at, &own): (usize, &usize)| {
        let after = &depths[at + 1..];
        // Whether another process of this depth follows below the same parent.
        let goes_on = |depth: usize| after.iter().take_while(|it| **it >= depth).any(|it| *it == depth);
        let above = (0..own.min(MAX_INDENT_DEPTH)).map(|depth| if goes_on(depth) { "│  " } else { "   " });
        above.chain([if goes_on(own) { "├─ " } else { "└─ " }]).collect()
    };
    depths.iter().enumerate().map(branch).collect()
}

/// Deeper processes are not indented further.
const MAX_INDENT_DEPTH: usize = 20;

fn owner_text(entry: &RunningServer) -> String {
    if entry.is_orphan { format!("owner {} is gone", entry.owner) } else { format!("owner {}", entry.owner) }
}

/// Returns the memory of all processes of a server. Shared memory is counted for each.
pub(crate) fn total_memory(entry: &RunningServer) -> u64 {
    entry.processes.iter().map(|process| process.memory).sum()
}

/// Formats a size, such as `45 MB`.
pub(crate) fn format_size(bytes: u64) -> String {
    units::bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_hang_below_their_parent() {
        let drawn: Vec<_> = branches(&[0, 1, 2, 1, 1, 2, 0, 1]);
        let expected = ["├─ ", "│  ├─ ", "│  │  └─ ", "│  ├─ ", "│  └─ ", "│     └─ ", "└─ ", "   └─ "];
        assert_eq!(drawn, expected);
    }
}
