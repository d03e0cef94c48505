//! Implements `bowline ping`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::args::PingArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::units;
use crate::session;
use crate::settings::Settings;

pub(super) async fn run(args: PingArgs, settings: &Settings) -> Outcome {
    let PingArgs { count, interval, server } = args;
    let (_, server) = settings.resolve_server_args("ping", server)?;
    let printer = &settings.printer;
    let times = session::with_outcome(settings, &server, async |client| {
        let mut times = Vec::new();
        for round in 0..count {
            if round > 0 {
                tokio::time::sleep(interval).await;
            }
            let asked = Instant::now();
            client.ping().await.map_err(|error| Failure::call(&error, &server, &settings.command_line))?;
            let time = asked.elapsed();
            times.push(time);
            if !printer.is_json() {
                printer.write_layout(&format!("{} answered in {}\n", server.name, units::time(time)))?;
            }
        }
        Ok(times)
    })
    .await?;
    if printer.is_json() {
        let millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
        printer.write_json(&json!({"server": server.name, "times_ms": millis}).to_string())?;
    } else if times.len() > 1 {
        printer.write_layout(&format!("{}\n", summary(&times)))?;
    }
    Ok(Exit::Ok)
}

fn summary(times: &[Duration]) -> String {
    let [min, max] = [times.iter().min(), times.iter().max()].map(|time| time.copied().unwrap_or_default());
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    let mean = times.iter().sum::<Duration>() / count;
    let [min, mean, max] = [min, mean, max].map(units::time);
    format!("{} answered, fastest {min}, mean {mean}, slowest {max}", units::count(times.len(), "ping"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_the_spread() {
        let times = [2, 4, 6].map(Duration::from_millis);
        assert_eq!(summary(&times), "3 pings answered, fastest 2.00 ms, mean 4.00 ms, slowest 6.00 ms");
    }
}
