//! The process's side: stdin up, orders down. No protocol is known here.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::wire::{Down, Up};

/// Carries bytes until told to exit, and gives the exit code. A director that goes away ends it:
/// no test leaves a process behind.
pub(super) async fn run(
    mut down: impl AsyncRead + Unpin,
    mut up: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<i32> {
    let ignore_term = Arc::new(AtomicBool::new(false));
    let (send, mut outgoing) = mpsc::channel::<Up>(64);
    tokio::spawn(async move {
        while let Some(message) = outgoing.recv().await {
            if message.write(&mut up).await.is_err() {
                break;
            }
        }
    });
    let _ = send.send(Up::Hello { pid: std::process::id() }).await;
    watch_term(send.clone(), ignore_term.clone());
    // The first order says how SIGTERM is taken; only then is a line read, so that a test never
    // sees a process in between.
    let mut order = Down::read(&mut down).await?;
    tokio::spawn(read_stdin(send.clone()));
    loop {
        match order {
            Down::Stdout(bytes) => {
                let mut stdout = tokio::io::stdout();
                stdout.write_all(&bytes).await?;
                stdout.flush().await?;
            }
            Down::Stderr(count) => flood(count).await?,
            Down::Exit(code) => return Ok(code),
            Down::IgnoreTerm(ignore) => ignore_term.store(ignore, Ordering::Relaxed),
            Down::Spawn => {
                let pid = hold()?;
                let _ = send.send(Up::Grandchild { pid }).await;
            }
        }
        order = match Down::read(&mut down).await {
            Ok(order) => order,
            Err(_) => return Ok(0),
        };
    }
}

async fn read_stdin(up: mpsc::Sender<Up>) {
    let mut stdin = BufReader::new(tokio::io::stdin());
    loop {
        let mut line = Vec::new();
        match stdin.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                    line.pop();
                }
                if up.send(Up::Line(line)).await.is_err() {
                    return;
                }
            }
        }
    }
    let _ = up.send(Up::Eof).await;
}

async fn flood(count: u64) -> io::Result<()> {
    let line =
        [b"a line of complaint to fill the pipe with, sixty-four bytes of it".as_slice(), b"\n"].concat();
    let mut stderr = tokio::io::stderr();
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    while left > 0 {
        let piece = &line[..left.min(line.len())];
        stderr.write_all(piece).await?;
        left -= piece.len();
    }
    stderr.flush().await
}

/// Starts this program again as a child that does nothing but hold stdout and stderr open.
fn hold() -> io::Result<u32> {
    let child = Command::new(std::env::current_exe()?)
        .arg(super::HOLD)
        .stdin(Stdio::null())
        .env_remove(super::CONTROL)
        .spawn()?;
    Ok(child.id())
}

#[cfg(unix)]
fn watch_term(up: mpsc::Sender<Up>, ignore: Arc<AtomicBool>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else { return };
    tokio::spawn(async move {
        while term.recv().await.is_some() {
            let _ = up.send(Up::Term).await;
            if !ignore.load(Ordering::Relaxed) {
                // Room for the report to leave; the exit itself is what the sender waits for.
                tokio::task::yield_now().await;
                std::process::exit(143);
            }
        }
    });
}

#[cfg(not(unix))]
fn watch_term(_up: mpsc::Sender<Up>, _ignore: Arc<AtomicBool>) {}
