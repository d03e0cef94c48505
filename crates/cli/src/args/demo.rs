//! Arguments of `bowline demo`.

use clap::Args;

/// `bowline demo`
#[derive(Debug, Args)]
#[command(after_long_help = "\
A server in this process forgets its sessions and says so in different words each time, restarts, and cuts
connections and streams, while ten callers use it steadily. It counts the calls that it runs; at the
end its count is compared with what the callers saw.

The server is hard but fair: one trouble at a time; it cuts only calls that it says may be repeated,
and streams that can be taken up again; and it restarts between calls, with all that has reached it
answered.

Ctrl-C ends it early, with the summary. The exit code is 0 only if it came to its end, no call failed
and none was run twice.

Examples:
  bowline demo
  bowline demo --seconds 60 --seed 7")]
pub(crate) struct DemoArgs {
    /// How long the demo runs, in seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// The seed of the order of faults; random if left out
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}
