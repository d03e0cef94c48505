//! The client process as the parent sees it: the orders it is sent, and the messages it reports.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::CLIENT_ROLE;
use crate::ledger::{CallLedger, Rule};
use crate::messages::{MemorySample, Message, Order, Plan};

/// A running client process. Dropping it kills the process.
pub(crate) struct ClientProcess {
    child: Child,
    stdin: ChildStdin,
    messages: mpsc::UnboundedReceiver<Message>,
    samples: Arc<Mutex<Vec<MemorySample>>>,
}

impl ClientProcess {
    /// Starts this program again as the client of the plan. Calls go straight into the ledgers, one
    /// per world of the plan; everything else comes from [`ClientProcess::next`].
    pub(crate) fn start(plan: &Plan, books: Vec<Arc<CallLedger>>) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut child = Command::new(program)
            .arg(CLIENT_ROLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the client process")?;
        let stdin = child.stdin.take().context("the client process has a stdin")?;
        let stdout = child.stdout.take().context("the client process has a stdout")?;
        let (sender, messages) = mpsc::unbounded_channel();
        let samples = Arc::default();
        let kept: Arc<Mutex<Vec<MemorySample>>> = Arc::clone(&samples);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(Ok(message)) = line.map(|line| serde_json::from_str(&line)) else { break };
                match message {
                    Message::Call(call) => match books.get(call.world) {
                        Some(book) => book.record(call),
                        None => break,
                    },
                    Message::Violation { world, text } => match books.get(world) {
                        Some(book) => book.record_violation(Rule::Recovers, text),
                        None => break,
                    },
                    Message::Memory(sample) => {
                        kept.lock().push(sample);
                    }
                    other => {
                        let _ = sender.send(other);
                    }
                }
            }
            // Dropping the sender signals that the process has stopped reporting.
        });
        let mut process = Self { child, stdin, messages, samples };
        process.write(plan)?;
        Ok(process)
    }

    pub(crate) fn send_order(&mut self, order: &Order) -> anyhow::Result<()> {
        self.write(order)
    }

    /// Returns the next message that is not stored elsewhere; an error if the process has ended.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Message> {
        match self.messages.recv().await {
            Some(message) => Ok(message),
            None => match self.child.try_wait() {
                Ok(Some(status)) => bail!("the client process ended early ({status})"),
                _ => bail!("the client process closed its output or wrote what is not a message"),
            },
        }
    }

    /// Lets the process exit, and returns the samples of its memory.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<MemorySample>> {
        self.send_order(&Order::Exit)?;
        let status = self.child.wait().context("waiting for the client process")?;
        if !status.success() {
            bail!("the client process failed ({status})");
        }
        Ok(std::mem::take(&mut *self.samples.lock()))
    }

    fn write(&mut self, message: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stdin.write_all(&line).context("the client process does not read")
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        // After `finish` both fail, because the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
