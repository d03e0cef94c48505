//! A server process that another program of the user keeps, and lends to this one over a byte stream.
//!
//! To the process go messages, one per line, as over its stdin. From it come messages as they are, and
//! between them lines for what else a process does, each with a letter before it that no message begins
//! with ([`AttachedLine`]). So a fault of the process says the same as if it had been started here.

use std::time::Duration;

use bowline_proto::fault::{Cause, Exit, Fault};
use bowline_proto::wire::outgoing::Frame;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

use super::line_tail::LineTail;
use super::stderr::StderrListener;
use crate::pipe::{FrameReader, InboundFrame, PipeReader, PipeWriter, pipe};

/// A process that another program keeps.
#[derive(Debug)]
pub struct AttachedProcess {
    /// Writes to its stdin.
    pub writer: PipeWriter,
    /// Reads its stdout, and reports why that ended.
    pub reader: AttachedReader,
    /// Waits for its release.
    pub handle: AttachedHandle,
}

/// What a process does, beside the messages that it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachedLine<'a> {
    /// A line of its stdout that is not a message.
    Noise(&'a [u8]),
    /// The beginning of a message that is over the limit.
    TooLarge(&'a [u8]),
    /// A line of its stderr.
    Stderr(&'a str),
    /// It has ended. Nothing follows.
    Exit(Exit),
}

/// Reads what an attached process writes, up to the reason why that ended.
#[derive(Debug)]
pub struct AttachedReader {
    pipe: PipeReader,
    limit: usize,
    server: String,
    listener: StderrListener,
    stderr: LineTail,
    noise: LineTail,
    exit: Option<Exit>,
    /// What ended it. Set when it has ended.
    fault: Option<Fault>,
    released: watch::Sender<bool>,
}

/// Waits until an attached process is released.
#[derive(Debug)]
pub struct AttachedHandle(watch::Receiver<bool>);

/// How many bytes over the limit a line may have. The keeper has applied the limit to what the process wrote; the letter
/// before a line, and what secrets in it were replaced by, come on top of that.
const LINE_SLACK: usize = 64 * 1024;
/// How long the other program may take to read what was sent last, and to close its end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Uses a process that another program keeps, over this pair of byte streams. A message may have at most `limit`
/// bytes; `listener` receives the lines of its stderr.
///
/// Never fails where processes can be started.
pub fn attach<R, W>(
    (reader, writer): (R, W),
    limit: usize,
    server: &str,
    listener: StderrListener,
) -> Result<AttachedProcess, Fault>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (writer, pipe) = pipe(reader, writer, limit.saturating_add(LINE_SLACK));
    let (released, handle) = watch::channel(false);
    let reader = AttachedReader {
        pipe,
        limit,
        server: server.to_owned(),
        listener,
        stderr: LineTail::default(),
        noise: LineTail::default(),
        exit: None,
        fault: None,
        released,
    };
    Ok(AttachedProcess { writer, reader, handle: AttachedHandle(handle) })
}

// === impl AttachedLine ===

impl<'a> AttachedLine<'a> {
    /// The line, ready to be sent to whoever uses the process.
    pub fn to_frame(&self) -> Frame {
        let tagged = |tag: u8, text: &[u8]| Frame::from_line(&[&[tag], text].concat());
        match self {
            Self::Noise(line) => tagged(NOISE, line),
            Self::TooLarge(head) => tagged(TOO_LARGE, head),
            Self::Stderr(line) => tagged(STDERR, line.as_bytes()),
            Self::Exit(Exit::Code(code)) => tagged(EXIT, format!("code {code}").as_bytes()),
            Self::Exit(Exit::Signal(signal)) => tagged(EXIT, format!("signal {signal}").as_bytes()),
            Self::Exit(_) => tagged(EXIT, b"eof"),
        }
    }

    /// Reads a line that is not a message. `None` if it is none of these.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let (tag, rest) = line.split_first()?;
        Some(match *tag {
            NOISE => Self::Noise(rest),
            TOO_LARGE => Self::TooLarge(rest),
            STDERR => Self::Stderr(str::from_utf8(rest).ok()?),
            EXIT => {
                let mut words = str::from_utf8(rest).ok()?.split(' ');
                let kind = words.next();
                let number = words.next().and_then(|number| number.parse().ok());
                Self::Exit(match (kind, number) {
                    (Some("code"), Some(code)) => Exit::Code(code),
                    (Some("signal"), Some(signal)) => Exit::Signal(signal),
                    _ => Exit::Eof,
                })
            }
            _ => return None,
        })
    }
}

const NOISE: u8 = b'n';
const TOO_LARGE: u8 = b't';
const STDERR: u8 = b'e';
const EXIT: u8 = b'x';

// === impl AttachedReader ===

impl AttachedReader {
    /// Takes a line that is not a message. Returns what of it the link receives.
    fn receive_line(&mut self, line: &Bytes) -> Option<InboundFrame> {
        match AttachedLine::parse(line)? {
            AttachedLine::Noise(text) => {
                self.noise.push(text, |_| ());
                self.noise.finish(|_| ());
                Some(InboundFrame::Noise(line.slice_ref(text)))
            }
            AttachedLine::TooLarge(head) => {
                Some(InboundFrame::TooLarge { head: line.slice_ref(head), limit: self.limit })
            }
            AttachedLine::Stderr(text) => {
                let (server, listener) = (&self.server, &self.listener);
                let log = |line: &str| {
                    tracing::debug!(target: "bowline::stderr", server, "{}", line.escape_debug());
                    listener.notify(line);
                };
                self.stderr.push(text.as_bytes(), log);
                self.stderr.finish(log);
                None
            }
            AttachedLine::Exit(exit) => {
                self.exit = Some(exit);
                None
            }
        }
    }

    /// Why the link ended: as the process did, or because the other program is gone.
    fn end(&mut self, fault: Fault) -> Fault {
        self.released.send_replace(true);
        let fault = match self.exit {
            Some(exit) => Fault::new(Cause::Exited(exit)),
            None if matches!(fault.cause, Cause::Exited(_)) => Fault::new(Cause::Cut).with_note(KEEPER_ENDED),
            None => fault,
        };
        let fault = fault.with_stderr(self.stderr.lines()).with_stdout(self.noise.lines());
        self.fault.insert(fault).clone()
    }
}

const KEEPER_ENDED: &str = "the `bowline serve` that keeps the server running has ended";

impl FrameReader for AttachedReader {
    async fn recv(&mut self) -> Result<InboundFrame, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        loop {
            match self.pipe.recv().await {
                Ok(InboundFrame::Noise(line)) => {
                    if let Some(received) = self.receive_line(&line) {
                        return Ok(received);
                    }
                }
                Ok(InboundFrame::TooLarge { head, .. }) => {
                    return Ok(InboundFrame::TooLarge { head, limit: self.limit });
                }
                Ok(received @ InboundFrame::Message(_)) => return Ok(received),
                Err(fault) => return Err(self.end(fault)),
            }
        }
    }
}

// === impl AttachedHandle ===

impl AttachedHandle {
    /// Waits until the other program has read what was sent, and has closed its end: for at most two seconds. The writer must
    /// be closed, and the reader must be read.
    pub async fn wait_until_released(&self) {
        let mut released = self.0.clone();
        let _ = timeout(RELEASE_TIMEOUT, released.wait_for(|released| *released)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn attach_to(stream: tokio::io::DuplexStream) -> AttachedProcess {
        let streams = tokio::io::split(stream);
        attach(streams, 1024, "files", StderrListener::new(|_| ())).unwrap()
    }

    #[tokio::test]
    async fn a_fault_says_what_the_process_wrote_and_how_it_ended() {
        let (ours, mut keeper) = duplex(4096);
        let mut process = attach_to(ours);
        keeper.write_all(b"{\"id\":1}\n").await.unwrap();
        for line in [
            AttachedLine::Noise(b"banner"),
            AttachedLine::Stderr("out of rope"),
            AttachedLine::TooLarge(b"{\"id\":2"),
            AttachedLine::Exit(Exit::Code(3)),
        ] {
            keeper.write_all(&line.to_frame().line()).await.unwrap();
        }
        drop(keeper);
        assert_eq!(process.reader.recv().await, Ok(InboundFrame::Message("{\"id\":1}".into())));
        assert_eq!(process.reader.recv().await, Ok(InboundFrame::Noise("banner".into())));
        let too_large = InboundFrame::TooLarge { head: "{\"id\":2".into(), limit: 1024 };
        assert_eq!(process.reader.recv().await, Ok(too_large));
        let fault = process.reader.recv().await.unwrap_err();
        assert_eq!(fault.cause, Cause::Exited(Exit::Code(3)));
        assert_eq!(
            (&*fault.evidence.stderr, &*fault.evidence.stdout),
            (&["out of rope".to_owned()][..], &["banner".to_owned()][..],)
        );
        assert_eq!(process.reader.recv().await, Err(fault));
        process.handle.wait_until_released().await;
    }

    #[tokio::test]
    async fn a_keeper_that_ends_is_not_an_exit_of_the_process() {
        let (ours, mut keeper) = duplex(4096);
        let mut process = attach_to(ours);
        process.writer.send(&Frame::from_line(b"{}")).await.unwrap();
        let mut sent = [0; 3];
        keeper.read_exact(&mut sent).await.unwrap();
        assert_eq!(&sent, b"{}\n");
        drop(keeper);
        let fault = process.reader.recv().await.unwrap_err();
        assert_eq!(fault.cause, Cause::Cut);
        assert_eq!(fault.evidence.note.as_deref(), Some(KEEPER_ENDED));
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_limit_is_not_too_large() {
        let (ours, mut keeper) = duplex(4096);
        let mut process = attach_to(ours);
        let noise = "n".repeat(1024);
        keeper.write_all(&AttachedLine::Noise(noise.as_bytes()).to_frame().line()).await.unwrap();
        assert_eq!(process.reader.recv().await, Ok(InboundFrame::Noise(noise.into())));
    }

    #[test]
    fn exits_are_read_as_they_were_written() {
        for exit in [Exit::Code(-1), Exit::Signal(9), Exit::Eof] {
            let line = AttachedLine::Exit(exit).to_frame().body();
            assert_eq!(AttachedLine::parse(&line), Some(AttachedLine::Exit(exit)));
        }
        assert_eq!(AttachedLine::parse(b""), None);
        assert_eq!(AttachedLine::parse(b"?"), None);
    }
}
