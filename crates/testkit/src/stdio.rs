//! [`StdioServer`]: the scripted MCP server as a child process on stdin and stdout.

mod agent;
mod director;
mod program_path;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;

use crate::control::Control;
use crate::engine::Engine;
use crate::fault::TransportKind;
#[cfg(target_os = "linux")]
use crate::process_exit::has_exited;
use crate::script::Script;
use crate::server_thread::{ServerThread, Spawner};
use wire::ProcessOrder;

/// The environment variable that holds the address of the director.
pub(crate) const CONTROL_ENV: &str = "TESTKIT_CONTROL";
/// The environment variable that holds the JSON of a script, if it is not an argument.
pub(crate) const SCRIPT_ENV: &str = "TESTKIT_SCRIPT";
/// The argument that makes the program a child that only holds its pipes open.
pub(crate) const HOLD_ARG: &str = "--hold";
/// How long such a child lives at most, should a test fail to end it.
const HOLD_SECONDS: u64 = 300;
/// How long a server may take to learn that a process has exited.
const EXIT_REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// The command that starts the stdio server.
#[derive(Clone, Debug)]
pub struct StdioCommand {
    /// The path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables it needs.
    pub env: Vec<(String, String)>,
}

impl StdioCommand {
    /// Returns it as a command, with pipes for stdin, stdout and stderr.
    pub fn command(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command
    }
}

/// Returns the command for a stdio server that runs this script on its own, without a test behind
/// it: its faults are those of [`Script::fault`], and nothing is recorded. Use [`Script::stdio`]
/// where a test needs more.
pub fn stdio_command(script: &Script) -> StdioCommand {
    StdioCommand { program: program_path::stdio_program(), args: vec![script.to_json()], env: Vec::new() }
}

/// A stdio server that is directed by a test.
///
/// The client under test starts the process with [`command`](Self::command), as often as it likes;
/// each process connects back over a loopback socket and does what the script and the armed faults
/// say.
///
/// # Behavior
///
/// - The record and the armed faults outlive each process; sessions do not.
/// - Dropping the handle ends every process that is still running.
pub struct StdioServer {
    control: Control,
    addr: SocketAddr,
    processes: Arc<Mutex<Vec<Arc<Process>>>>,
    _thread: ServerThread,
}

impl Script {
    /// Prepares the script to be run by processes. None is started yet.
    pub async fn stdio(self) -> StdioServer {
        let host = ServerThread::start("testkit-stdio");
        let engine = Arc::new(Engine::new(self, TransportKind::Stdio));
        let control = Control { engine: engine.clone() };
        let processes: Arc<Mutex<Vec<Arc<Process>>>> = Arc::default();
        let (tasks, list) = (host.spawner.clone(), processes.clone());
        let addr = host
            .run(async move {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a loopback port is free");
                let addr = listener.local_addr().expect("a bound socket has an address");
                tasks.clone().spawn(accept(listener, engine, tasks, list));
                addr
            })
            .await;
        StdioServer { control, addr, processes, _thread: host }
    }
}

impl StdioServer {
    /// Returns the command that starts a process.
    pub fn command(&self) -> StdioCommand {
        StdioCommand {
            program: program_path::stdio_program(),
            args: Vec::new(),
            env: vec![(CONTROL_ENV.into(), self.addr.to_string())],
        }
    }

    /// Returns every process so far, in order.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        self.processes.lock().iter().map(|process| process.info()).collect()
    }

    /// Returns the pid of the newest process.
    pub fn pid(&self) -> Option<u32> {
        self.processes().last().map(|process| process.pid)
    }

    /// Panics if a process has not exited.
    pub async fn expect_all_exited(&self) {
        // This server learns of an exit later than whoever waits for the process.
        #[cfg(target_os = "linux")]
        for process in self.processes().iter().filter(|process| process.is_running() && process.pid > 0) {
            assert!(has_exited(process.pid), "{process:?}");
        }
        let all_exited = || self.processes().iter().all(|process| !process.is_running());
        self.control.engine.message_log.expect_condition(all_exited, EXIT_REPORT_TIMEOUT).await;
    }

    /// Returns the pids of all children started by [`Fault::grandchild`](crate::Fault::grandchild)
    /// or [`spawn_grandchild`](Self::spawn_grandchild).
    pub fn grandchildren(&self) -> Vec<u32> {
        self.processes().iter().flat_map(|process| process.grandchildren.clone()).collect()
    }

    /// Makes the newest process start a child that holds stdout and stderr open, and returns its
    /// pid.
    pub async fn spawn_grandchild(&self) -> u32 {
        let before = self.grandchildren().len();
        self.send_order(&ProcessOrder::Spawn);
        let ledger = &self.control.engine.message_log;
        let look = || self.grandchildren().get(before).copied();
        let born = ledger.wait_for(look, Duration::from_secs(10)).await;
        born.expect("a process is running and starts its child")
    }

    /// Makes the newest process exit.
    pub fn exit(&self, code: i32) {
        self.send_order(&ProcessOrder::Exit(code));
    }

    /// Makes the newest process write these bytes on stdout, unchanged.
    pub fn write_stdout(&self, bytes: impl Into<Vec<u8>>) {
        self.send_order(&ProcessOrder::Stdout(bytes.into()));
    }

    /// Makes the newest process write these bytes on stderr, unchanged.
    pub fn write_stderr(&self, bytes: impl Into<Vec<u8>>) {
        self.send_order(&ProcessOrder::StderrText(bytes.into()));
    }

    /// Returns a handle for other tasks, usable also after the server is dropped.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    fn send_order(&self, order: &ProcessOrder) {
        if let Some(process) = self.processes.lock().last() {
            process.send_order(order.clone());
        }
    }
}

impl Deref for StdioServer {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

/// An event of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// The stdin of the process closed.
    Eof,
    /// The process received SIGTERM.
    Term,
    /// The process exited.
    Ended,
}

/// A process of a [`StdioServer`].
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// The number of the process, from 1.
    pub number: u32,
    /// The pid of the process.
    pub pid: u32,
    /// The events of the process, in order.
    pub events: Vec<ProcessEvent>,
    /// The pids of the children it started.
    pub grandchildren: Vec<u32>,
}

impl ProcessInfo {
    /// Returns whether the process has not exited.
    pub fn is_running(&self) -> bool {
        !self.events.contains(&ProcessEvent::Ended)
    }
}

struct Process {
    number: u32,
    state: Mutex<ProcessState>,
}

#[derive(Default)]
struct ProcessState {
    pid: u32,
    events: Vec<ProcessEvent>,
    grandchildren: Vec<u32>,
    orders: Option<UnboundedSender<ProcessOrder>>,
}

impl Process {
    fn new(number: u32) -> Arc<Self> {
        Arc::new(Self { number, state: Mutex::default() })
    }

    fn record_start(&self, pid: u32, orders: UnboundedSender<ProcessOrder>) {
        let mut state = self.state.lock();
        state.pid = pid;
        state.orders = Some(orders);
    }

    fn record_event(&self, event: ProcessEvent) {
        let mut state = self.state.lock();
        state.events.push(event);
        if event == ProcessEvent::Ended {
            // The order channel must close, or messages would seem deliverable.
            state.orders = None;
        }
    }

    fn record_grandchild(&self, pid: u32) {
        self.state.lock().grandchildren.push(pid);
    }

    fn send_order(&self, order: ProcessOrder) {
        if let Some(orders) = &self.state.lock().orders {
            let _ = orders.send(order);
        }
    }

    fn info(&self) -> ProcessInfo {
        let state = self.state.lock();
        ProcessInfo {
            number: self.number,
            pid: state.pid,
            events: state.events.clone(),
            grandchildren: state.grandchildren.clone(),
        }
    }
}

async fn accept(
    listener: TcpListener,
    engine: Arc<Engine>,
    tasks: Spawner,
    processes: Arc<Mutex<Vec<Arc<Process>>>>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        engine.message_log.count_connection();
        let process = Process::new(engine.message_log.count_run());
        processes.lock().push(process.clone());
        let (up, down) = stream.into_split();
        // A process that exits closes its connection, which is no error here.
        let directing = director::direct_process(engine.clone(), tasks.clone(), process, up, down);
        tasks.spawn(async move { drop(directing.await) });
    }
}

/// The program `testkit-stdio`.
///
/// With `TESTKIT_CONTROL` (an address) it obeys the test at that address. Otherwise it runs the
/// script given as JSON in its argument or in `TESTKIT_SCRIPT`; without one it offers `echo`.
#[doc(hidden)]
pub fn stdio_main() -> io::Result<i32> {
    let argument = std::env::args().nth(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if argument.as_deref() == Some(HOLD_ARG) {
        // Within the runtime, because a sleep created outside has no timer.
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs(HOLD_SECONDS)).await });
        return Ok(0);
    }
    let code = if let Ok(addr) = std::env::var(CONTROL_ENV) {
        runtime.block_on(async {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            let (down, up) = stream.into_split();
            agent::run(down, up).await
        })?
    } else {
        let script = match argument.or_else(|| std::env::var(SCRIPT_ENV).ok()) {
            Some(json) => Script::from_json(&json).map_err(io::Error::other)?,
            None => crate::server().tool("echo"),
        };
        run_standalone(&runtime, script)?
    };
    // A read of stdin may be running on a blocking thread; it must not delay the exit.
    runtime.shutdown_background();
    Ok(code)
}

/// Runs agent and director in one process.
fn run_standalone(runtime: &tokio::runtime::Runtime, script: Script) -> io::Result<i32> {
    let host = ServerThread::start("testkit-director");
    let engine = Arc::new(Engine::new(script, TransportKind::Stdio));
    let process = Process::new(engine.message_log.count_run());
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (up, down) = tokio::io::split(theirs);
    let tasks = host.spawner.clone();
    host.spawner.spawn(async move { director::direct_process(engine, tasks, process, up, down).await });
    let (down, up) = tokio::io::split(ours);
    runtime.block_on(agent::run(down, up))
}
