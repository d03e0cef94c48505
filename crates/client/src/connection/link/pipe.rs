//! The pipe to a server process, or to a server in this process.

use std::sync::Arc;

use bowline_proto::client::session::{Attempt, Event};
use bowline_proto::fault::{Fault, Misbehavior};
use bowline_proto::wire;
use bowline_transport::pipe::{FrameReader, InboundFrame, PipeWriter};

use super::OpenLink;
use super::wire::Wire;
use crate::connection::{Connection, Failure};

/// Creates a link over a pipe and starts reading it.
pub(crate) fn open(
    connection: &Arc<Connection>,
    attempt: Attempt,
    writer: PipeWriter,
    reader: impl FrameReader + 'static,
) -> OpenLink {
    let wire = Wire::Pipe(writer);
    let task = tokio::spawn(read_pipe(Arc::clone(connection), attempt, wire.clone(), reader));
    let mut link = OpenLink::new(wire);
    link.tasks.push(task.abort_handle());
    link
}

/// Reads a pipe: dispatches every message, and reports the fault that ends it.
async fn read_pipe(connection: Arc<Connection>, attempt: Attempt, wire: Wire, mut reader: impl FrameReader) {
    let fault = loop {
        match reader.recv().await {
            Ok(InboundFrame::Message(frame)) => {
                wire::parse(&frame, |parsed| connection.handle_message(&wire, None, parsed));
            }
            // ST-02: logged and skipped.
            Ok(InboundFrame::Noise(line)) => {
                connection.events.record_stray_line();
                tracing::warn!(server = %connection.server.name, line = %String::from_utf8_lossy(&line[..line.len().min(200)]), "non-MCP output on stdout");
            }
            Ok(InboundFrame::TooLarge { head, limit }) => {
                // The head of the message may reveal the call that it answers.
                let id = wire::parse_one(&head).err().and_then(|malformed| malformed.id?.as_request_number());
                let fault = Fault::protocol(Misbehavior::TooLarge { limit }).with_body(&head);
                connection.finish_call(id, Err(Failure::Fault(fault)));
            }
            Err(fault) => break fault,
        }
    };
    connection.engine.report_link_event(attempt, Event::LinkLost(fault));
}
