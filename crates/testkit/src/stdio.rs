//! [`StdioServer`]: the scripted server as a child process on stdin and stdout.

mod agent;
mod director;
mod locate;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;

use crate::control::Control;
use crate::engine::Engine;
use crate::fault::Front;
use crate::host::{Host, Tasks};
use crate::script::Script;
use crate::sync::lock;
use wire::Down;

/// The environment variable with the address of the director.
pub(crate) const CONTROL: &str = "TESTKIT_CONTROL";
/// The environment variable with the JSON of a script, if it is not an argument.
pub(crate) const SCRIPT: &str = "TESTKIT_SCRIPT";
/// The argument that makes the program a child that only holds its pipes.
pub(crate) const HOLD: &str = "--hold";
/// A held child ends by itself, should a test fail to end it.
const HOLD_SECONDS: u64 = 300;

/// How to start the stdio server.
#[derive(Clone, Debug)]
pub struct StdioCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables it needs.
    pub env: Vec<(String, String)>,
}

impl StdioCommand {
    /// The same as a command, with pipes for stdin, stdout and stderr.
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

/// How to start a stdio server that runs this script on its own, with no test behind it: its
/// faults are those of [`Script::fault`], and nothing is recorded. Use [`Script::stdio`] where a
/// test wants more.
pub fn stdio_command(script: &Script) -> StdioCommand {
    StdioCommand { program: locate::program(), args: vec![script.to_json()], env: Vec::new() }
}

/// A stdio server under a test's direction.
///
/// The client under test starts the process, with [`command`](Self::command), as often as it
/// likes; each reports here over a loopback socket and carries out what the script and the armed
/// faults say.
///
/// # Behaviour
///
/// - The record and the armed faults outlive each process; sessions do not.
/// - Dropping the handle ends every process that is still there.
pub struct StdioServer {
    control: Control,
    addr: SocketAddr,
    processes: Arc<Mutex<Vec<Arc<Process>>>>,
    _host: Host,
}

impl Script {
    /// Makes the script ready to be run by processes. None is started yet.
    pub async fn stdio(self) -> StdioServer {
        let host = Host::start("testkit-stdio");
        let engine = Arc::new(Engine::new(self, Front::Stdio));
        let control = Control { engine: engine.clone() };
        let processes: Arc<Mutex<Vec<Arc<Process>>>> = Arc::default();
        let (tasks, list) = (host.tasks.clone(), processes.clone());
        let addr = host
            .run(async move {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a loopback port is free");
                let addr = listener.local_addr().expect("a bound socket has an address");
                tasks.clone().spawn(accept(listener, engine, tasks, list));
                addr
            })
            .await;
        StdioServer { control, addr, processes, _host: host }
    }
}

impl StdioServer {
    /// How to start a process.
    pub fn command(&self) -> StdioCommand {
        StdioCommand {
            program: locate::program(),
            args: Vec::new(),
            env: vec![(CONTROL.into(), self.addr.to_string())],
        }
    }

    /// Every process so far, in order.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        lock(&self.processes).iter().map(|process| process.info()).collect()
    }

    /// The pid of the newest process.
    pub fn pid(&self) -> Option<u32> {
        self.processes().last().map(|process| process.pid)
    }

    /// The pids of all children started by [`Fault::grandchild`](crate::Fault::grandchild) or
    /// [`spawn_grandchild`](Self::spawn_grandchild).
    pub fn grandchildren(&self) -> Vec<u32> {
        self.processes().iter().flat_map(|process| process.grandchildren.clone()).collect()
    }

    /// Lets the newest process start a child that holds stdout and stderr, and gives its pid.
    pub async fn spawn_grandchild(&self) -> u32 {
        let before = self.grandchildren().len();
        self.order(&Down::Spawn);
        let ledger = &self.control.engine.ledger;
        let look = || self.grandchildren().get(before).copied();
        let born = ledger.until(look, Duration::from_secs(10)).await;
        born.expect("a process is running and starts its child")
    }

    /// Lets the newest process exit.
    pub fn exit(&self, code: i32) {
        self.order(&Down::Exit(code));
    }

    /// Lets the newest process write this on stdout, as it is.
    pub fn write_stdout(&self, bytes: impl Into<Vec<u8>>) {
        self.order(&Down::Stdout(bytes.into()));
    }

    /// A handle for other tasks, and for after the server is gone.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    fn order(&self, order: &Down) {
        if let Some(process) = lock(&self.processes).last() {
            process.order(order.clone());
        }
    }
}

impl Deref for StdioServer {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Its stdin closed.
    Eof,
    /// It got SIGTERM.
    Term,
    /// It is gone.
    Ended,
}

/// A process as the test sees it.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// Its number, from 1.
    pub number: u32,
    /// Its pid.
    pub pid: u32,
    /// What happened to it, in order.
    pub events: Vec<ProcessEvent>,
    /// The children it started.
    pub grandchildren: Vec<u32>,
}

impl ProcessInfo {
    /// Whether it is still there.
    pub fn running(&self) -> bool {
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
    orders: Option<UnboundedSender<Down>>,
}

impl Process {
    fn new(number: u32) -> Arc<Self> {
        Arc::new(Self { number, state: Mutex::default() })
    }

    fn started(&self, pid: u32, orders: UnboundedSender<Down>) {
        let mut state = lock(&self.state);
        state.pid = pid;
        state.orders = Some(orders);
    }

    fn note(&self, event: ProcessEvent) {
        let mut state = lock(&self.state);
        state.events.push(event);
        if event == ProcessEvent::Ended {
            // The channel must close, or messages would seem to be deliverable.
            state.orders = None;
        }
    }

    fn grandchild(&self, pid: u32) {
        lock(&self.state).grandchildren.push(pid);
    }

    fn order(&self, order: Down) {
        if let Some(orders) = &lock(&self.state).orders {
            let _ = orders.send(order);
        }
    }

    fn info(&self) -> ProcessInfo {
        let state = lock(&self.state);
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
    tasks: Tasks,
    processes: Arc<Mutex<Vec<Arc<Process>>>>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        engine.ledger.connected();
        let process = Process::new(engine.ledger.started());
        lock(&processes).push(process.clone());
        let (up, down) = stream.into_split();
        // A process that dies closes the channel, which is no error here.
        let directing = director::direct(engine.clone(), tasks.clone(), process, up, down);
        tasks.spawn(async move { drop(directing.await) });
    }
}

/// The program `testkit-stdio`.
///
/// With `TESTKIT_CONTROL` (an address) it does what the test there says. Otherwise it runs the
/// script given as JSON in its argument or in `TESTKIT_SCRIPT`; without one it offers `echo`.
#[doc(hidden)]
pub fn stdio_main() -> io::Result<i32> {
    let argument = std::env::args().nth(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if argument.as_deref() == Some(HOLD) {
        // Within the runtime: a sleep made outside it has no clock.
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs(HOLD_SECONDS)).await });
        return Ok(0);
    }
    let code = if let Ok(addr) = std::env::var(CONTROL) {
        runtime.block_on(async {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            let (down, up) = stream.into_split();
            agent::run(down, up).await
        })?
    } else {
        let script = match argument.or_else(|| std::env::var(SCRIPT).ok()) {
            Some(json) => Script::from_json(&json).map_err(io::Error::other)?,
            None => crate::server().tool("echo"),
        };
        alone(&runtime, script)?
    };
    // A read of stdin may be under way on a blocking thread; it must not hold up the exit.
    runtime.shutdown_background();
    Ok(code)
}

/// Both sides in one process.
fn alone(runtime: &tokio::runtime::Runtime, script: Script) -> io::Result<i32> {
    let host = Host::start("testkit-director");
    let engine = Arc::new(Engine::new(script, Front::Stdio));
    let process = Process::new(engine.ledger.started());
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (up, down) = tokio::io::split(theirs);
    let tasks = host.tasks.clone();
    host.tasks.spawn(async move { director::direct(engine, tasks, process, up, down).await });
    let (down, up) = tokio::io::split(ours);
    runtime.block_on(agent::run(down, up))
}
