//! The agent in the stdio process: it reports stdin to the director and executes its orders. It
//! knows no protocol and decides nothing: it only reports even SIGTERM, and the director decides
//! whether to exit.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, mpsc};

use super::wire::{ProcessOrder, ProcessReport};

type Uplink = Arc<Mutex<Box<dyn AsyncWrite + Unpin + Send>>>;

/// Forwards bytes until it is ordered to exit, and returns the exit code. It also ends when the
/// director disconnects, so that no test leaves a process behind.
pub(super) async fn run(
    mut down: impl AsyncRead + Unpin,
    up: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<i32> {
    let up: Uplink = Arc::new(Mutex::new(Box::new(up)));
    watch_term(up.clone());
    report(&up, ProcessReport::Started { pid: std::process::id() }).await;
    tokio::spawn(read_stdin(up.clone()));
    // Orders are read and executed separately, so that a blocked write does not delay the order to
    // die.
    let (queue, orders) = mpsc::unbounded_channel();
    let receive = async {
        loop {
            match ProcessOrder::read(&mut down).await {
                Ok(ProcessOrder::Die(code)) => return code,
                Ok(order) => {
                    let _ = queue.send(order);
                }
                Err(_) => return 0,
            }
        }
    };
    tokio::select! {
        code = receive => Ok(code),
        code = carry_out(orders, &up) => code,
    }
}

async fn carry_out(mut orders: mpsc::UnboundedReceiver<ProcessOrder>, up: &Uplink) -> io::Result<i32> {
    while let Some(order) = orders.recv().await {
        match order {
            ProcessOrder::Stdout(bytes) => {
                let mut stdout = tokio::io::stdout();
                stdout.write_all(&bytes).await?;
                stdout.flush().await?;
            }
            ProcessOrder::StderrText(bytes) => {
                let mut stderr = tokio::io::stderr();
                stderr.write_all(&bytes).await?;
                stderr.flush().await?;
            }
            ProcessOrder::Stderr(count) => flood_stderr(count).await?,
            ProcessOrder::Exit(code) | ProcessOrder::Die(code) => return Ok(code),
            ProcessOrder::Spawn => {
                let pid = spawn_holder()?;
                report(up, ProcessReport::Grandchild { pid }).await;
            }
        }
    }
    Ok(0)
}

/// Sends a report. A lost connection is noticed by the reader of orders.
async fn report(up: &Uplink, report: ProcessReport) {
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
                report(&up, ProcessReport::Line(line)).await;
            }
        }
    }
    report(&up, ProcessReport::Eof).await;
}

async fn flood_stderr(count: u64) -> io::Result<()> {
    let line = [b"complaint ".repeat(7), b"\n".to_vec()].concat();
    let mut stderr = tokio::io::stderr();
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    while left > 0 {
        let piece = &line[..left.min(line.len())];
        stderr.write_all(piece).await?;
        left -= piece.len();
    }
    stderr.flush().await
}

/// Starts this program again as a child that only holds stdout and stderr open.
fn spawn_holder() -> io::Result<u32> {
    let child = Command::new(std::env::current_exe()?)
        .arg(super::HOLD_ARG)
        .stdin(Stdio::null())
        .env_remove(super::CONTROL_ENV)
        .spawn()?;
    Ok(child.id())
}

#[cfg(unix)]
fn watch_term(up: Uplink) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else { return };
    tokio::spawn(async move {
        while term.recv().await.is_some() {
            report(&up, ProcessReport::Term).await;
        }
    });
}

#[cfg(not(unix))]
fn watch_term(_up: Uplink) {}
