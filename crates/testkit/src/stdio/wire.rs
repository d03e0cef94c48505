//! The control channel between the stdio process (agent) and the test (director).
//!
//! The process only forwards bytes: it reports what it reads and executes the orders it gets. So
//! the script runs in the test, faults are armed without a race, and tool closures work.
//!
//! A frame is a tag, a length (big-endian `u32`) and that many bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A report of the process to the director.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProcessReport {
    /// The process has started.
    Started { pid: u32 },
    /// A line of stdin, without its line ending.
    Line(Vec<u8>),
    /// Stdin ended.
    Eof,
    /// SIGTERM was received.
    Term,
    /// A child of the process has started.
    Grandchild { pid: u32 },
}

/// An order of the director to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProcessOrder {
    /// Write this on stdout.
    Stdout(Vec<u8>),
    /// Write this many bytes on stderr.
    Stderr(u64),
    /// Write this on stderr.
    StderrText(Vec<u8>),
    /// Exit after all earlier orders.
    Exit(i32),
    /// Exit at once, whatever earlier orders are left.
    Die(i32),
    /// Start a child.
    Spawn,
}

/// The maximum size of a frame in bytes; no message of a test is larger.
const MAX_FRAME_BYTES: u32 = 512 << 20;

impl ProcessReport {
    pub(super) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        match self {
            Self::Started { pid } => write_frame(to, b'h', &pid.to_be_bytes()).await,
            Self::Line(line) => write_frame(to, b'l', line).await,
            Self::Eof => write_frame(to, b'e', &[]).await,
            Self::Term => write_frame(to, b't', &[]).await,
            Self::Grandchild { pid } => write_frame(to, b'g', &pid.to_be_bytes()).await,
        }
    }

    /// Reads a frame. Not cancel-safe: a partly read frame is lost.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let (tag, body) = read_frame(from).await?;
        Ok(match tag {
            b'h' => Self::Started { pid: u32::from_be_bytes(fixed_bytes(&body)?) },
            b'l' => Self::Line(body),
            b'e' => Self::Eof,
            b't' => Self::Term,
            b'g' => Self::Grandchild { pid: u32::from_be_bytes(fixed_bytes(&body)?) },
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

impl ProcessOrder {
    pub(super) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        match self {
            Self::Stdout(bytes) => write_frame(to, b'o', bytes).await,
            Self::Stderr(count) => write_frame(to, b'e', &count.to_be_bytes()).await,
            Self::StderrText(bytes) => write_frame(to, b'r', bytes).await,
            Self::Exit(code) => write_frame(to, b'x', &code.to_be_bytes()).await,
            Self::Die(code) => write_frame(to, b'd', &code.to_be_bytes()).await,
            Self::Spawn => write_frame(to, b's', &[]).await,
        }
    }

    /// Reads a frame. Not cancel-safe: a partly read frame is lost.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let (tag, body) = read_frame(from).await?;
        Ok(match tag {
            b'o' => Self::Stdout(body),
            b'e' => Self::Stderr(u64::from_be_bytes(fixed_bytes(&body)?)),
            b'r' => Self::StderrText(body),
            b'x' => Self::Exit(i32::from_be_bytes(fixed_bytes(&body)?)),
            b'd' => Self::Die(i32::from_be_bytes(fixed_bytes(&body)?)),
            b's' => Self::Spawn,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

async fn write_frame(to: &mut (impl AsyncWrite + Unpin), tag: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut head = [tag, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_be_bytes());
    to.write_all(&head).await?;
    to.write_all(body).await?;
    to.flush().await
}

async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let tag = from.read_u8().await?;
    let length = from.read_u32().await?;
    if length > MAX_FRAME_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body).await?;
    Ok((tag, body))
}

fn fixed_bytes<const N: usize>(body: &[u8]) -> io::Result<[u8; N]> {
    body.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}
