//! Runs the benchmark server over stdin and stdout.

use std::io::{BufRead, BufReader, BufWriter, Write};

use super::response::{Responder, ServerReply};
use super::tools::ToolList;

/// Serves until stdin closes.
///
/// Blocking reads on one thread: nothing is faster over a pipe, and the server must not be the
/// bottleneck.
pub(crate) fn serve() -> anyhow::Result<()> {
    let answers = Responder::new();
    let mut input = BufReader::with_capacity(64 * 1024, std::io::stdin().lock());
    let mut output = BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let ServerReply::Message { head, tail, .. } = answers.respond(&line, ToolList::Small)? {
            output.write_all(&head)?;
            output.write_all(&tail)?;
            output.write_all(b"\n")?;
            // One write per message, as servers do. Batching responses would favor clients that
            // read in bulk, above all the floor.
            output.flush()?;
        }
    }
}
