//! Renders the figures for a terminal and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::LegResult;
use super::figures::Figures;

/// Renders one table for all servers and clients, with the causes of failures below each line.
pub(crate) fn render(legs: &[LegResult]) -> String {
    let mut out = String::new();
    let mut server = "";
    for LegResult { kind, name, figures } in legs {
        if kind.name() != server {
            server = kind.name();
            let _ = writeln!(out, "\n{server}: {}", kind.describe());
            let _ = writeln!(
                out,
                "  {:<12}{:>7}{:>8}{:>13}{:>16}{:>10}{:>12}  revision",
                "client", "calls", "failed", "longest gap", "back to success", "down", "handshakes"
            );
        }
        match figures {
            Ok(figures) => render_line(&mut out, name, figures),
            Err(reason) => {
                let _ = writeln!(out, "  {name:<12}not run: {reason}");
            }
        }
    }
    out
}

fn render_line(out: &mut String, name: &str, figures: &Figures) {
    let seconds = |value: f64| format!("{value:.2} s");
    let worst = |values: &[Option<f64>]| {
        if values.is_empty() {
            return "-".to_owned();
        }
        let all: Option<Vec<f64>> = values.iter().copied().collect();
        all.map_or("never".to_owned(), |all| format!("{:.0} ms", all.into_iter().fold(0.0, f64::max) * 1e3))
    };
    let down = figures.outages.iter().map(|outage| outage.back - outage.killed).reduce(f64::max);
    let _ = writeln!(
        out,
        "  {name:<12}{:>7}{:>8}{:>13}{:>16}{:>10}{:>12}  {}",
        figures.calls,
        figures.failed,
        seconds(figures.longest_gap),
        worst(&figures.back_to_success),
        down.map_or("-".to_owned(), seconds),
        figures.handshakes.map_or("-".to_owned(), |count| count.to_string()),
        figures.revision.as_deref().unwrap_or("-"),
    );
    for (cause, count) in &figures.causes {
        let _ = writeln!(out, "    {count:>5} x {cause}");
    }
}

pub(crate) fn to_json(legs: &[LegResult]) -> Value {
    let legs: Vec<Value> = legs
        .iter()
        .map(|LegResult { kind, name, figures }| match figures {
            Ok(figures) => json!({ "server": kind.name(), "peer": name, "figures": figures }),
            Err(reason) => json!({ "server": kind.name(), "peer": name, "not_run": reason }),
        })
        .collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "legs": legs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::figures::Outage;
    use crate::recovery::test_server::ServerKind;

    #[test]
    fn a_client_that_never_comes_back_says_so() {
        let figures = Figures {
            revision: Some("2025-11-25".into()),
            calls: 500,
            failed: 300,
            causes: [("gone".to_owned(), 300)].into(),
            longest_gap: 6.0,
            outages: vec![Outage { killed: 1.0, back: 1.5 }, Outage { killed: 4.0, back: 4.75 }],
            back_to_success: vec![Some(0.02), None],
            handshakes: None,
        };
        let legs = [
            LegResult { kind: ServerKind::Rmcp, name: "python", figures: Ok(figures) },
            LegResult { kind: ServerKind::Rmcp, name: "rmcp", figures: Err("no such client".into()) },
        ];
        let text = render(&legs);
        for part in ["never", "0.75 s", "300 x gone", "rmcp        not run: no such client"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(to_json(&legs)["legs"][0]["figures"]["failed"], 300);
    }
}
