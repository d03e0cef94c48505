//! The process's side: stdin up, orders down. No protocol is known here.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use super::wire::{Down, Up};

/// Carries bytes until told to exit, and gives the exit code. A director that goes away ends it:
/// no test leaves a process behind.
pub(super) async fn run(
    mut down: impl AsyncRead + Unpin,
    up: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<i32> {
    let ignore_term = Arc::new(AtomicBool::new(false));
    let up: Uplink = Arc::new(Mutex::new(Box::new(up)));
    report(&up, Up::Hello { pid: std::process::id() }).await;
    watch_term(up.clone(), ignore_term.clone());
    // The first order says how SIGTERM is taken; only then is a line read, so that a test never
    // sees a process in between.
    let mut order = Down::read(&mut down).await?;
    tokio::spawn(read_stdin(up.clone()));
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
                report(&up, Up::Grandchild { pid }).await;
            }
        }
        order = match Down::read(&mut down).await {
            Ok(order) => order,
            Err(_) => return Ok(0),
        };
    }
}

type Uplink = Arc<Mutex<Box<dyn AsyncWrite + Unpin + Send>>>;

/// Returns when the report is on its way. A director that is gone is noticed by the reader.
async fn report(up: &Uplink, report: Up) {
    let _ = report.write(&mut *up.lock().await).await;
}

async fn read_stdin(up: Uplink) {
    let mut stdin = BufReader::new(tokio::io::stdin());
    loop {
        let mut line = Vec::new();
        match stdin.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                    line.pop();
                }
                report(&up, Up::Line(line)).await;
            }
        }
    }
    report(&up, Up::Eof).await;
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
fn watch_term(up: Uplink, ignore: Arc<AtomicBool>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else { return };
    tokio::spawn(async move {
        while term.recv().await.is_some() {
            report(&up, Up::Term).await;
            if !ignore.load(Ordering::Relaxed) {
                std::process::exit(143);
            }
        }
    });
}

#[cfg(not(unix))]
fn watch_term(_up: Uplink, _ignore: Arc<AtomicBool>) {}
