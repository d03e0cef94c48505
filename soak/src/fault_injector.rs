//! Injects faults: which one strikes a world next, and for how long.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_testkit::{CannedResponse, Control, Fault, FaultProxy, HttpServer, ProxyRules, StdioServer};
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fault_log::{FaultKind, FaultLog};
use crate::world::{World, WorldServer};

/// Injects faults into a world until `until`, and leaves it working.
pub(crate) fn start(world: &World, until: Instant) -> JoinHandle<()> {
    let mut trouble = FaultInjector {
        server: Arc::clone(&world.server),
        log: Arc::clone(&world.faults),
        log_name: world.log_name(),
        rng: Rng::with_seed(world.seed),
    };
    let (log, control) = (Arc::clone(&world.faults), world.server.control());
    tokio::spawn(async move {
        tokio::select! {
            () = trouble.strike_until(until) => {}
            () = watch_armed(&log, &control) => {}
        }
        control.disarm();
        log.end_armed();
    })
}

/// Records when armed faults have struck: the server then holds none of them any more.
async fn watch_armed(log: &FaultLog, control: &Control) {
    loop {
        sleep(ARMED_POLL_INTERVAL).await;
        if log.has_armed() && control.armed_faults().is_empty() {
            log.end_armed();
        }
    }
}

struct FaultInjector {
    server: Arc<WorldServer>,
    log: Arc<FaultLog>,
    /// The world's name, if faults are printed as they happen.
    log_name: Option<&'static str>,
    rng: Rng,
}

impl FaultInjector {
    async fn strike_until(&mut self, until: Instant) {
        let control = self.server.control();
        loop {
            let pause = self.random_duration(100, 900);
            sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
            if Instant::now() >= until {
                return;
            }
            self.strike(&control).await;
            // A record of every message would fill the memory.
            control.clear_received();
        }
    }

    async fn strike(&mut self, control: &Control) {
        let place = Arc::clone(&self.server);
        match &*place {
            WorldServer::Http(server) => match self.rng.u8(..10) {
                0..3 => self.lose_sessions(control, FaultKind::SessionsLost).await,
                3 => self.restart(server).await,
                4 => self.end_connections(server).await,
                _ => self.arm_http(control),
            },
            WorldServer::Proxied(server, proxy) => match self.rng.u8(..10) {
                0..2 => self.lose_sessions(control, FaultKind::SessionsLost).await,
                2 => self.restart(server).await,
                _ => self.disturb_network(proxy).await,
            },
            WorldServer::HttpSse(server) => match self.rng.u8(..10) {
                0..2 => self.lose_sessions(control, FaultKind::SessionsLostWithStream).await,
                2..4 => self.restart(server).await,
                4 => self.end_connections(server).await,
                5 => self.inject(FaultKind::StreamsClosed, async { server.close_streams() }).await,
                _ => self.arm_events(control),
            },
            WorldServer::Stdio(server) => match self.rng.u8(..10) {
                0..2 => self.kill(server).await,
                _ => self.arm_stdio(control),
            },
        }
    }

    fn log_fault(&self, what: impl FnOnce() -> String) {
        if let Some(name) = self.log_name {
            eprintln!("{name}: {}", what());
        }
    }

    /// Injects a fault and logs it, from before it begins until it is over.
    async fn inject(&self, kind: FaultKind, fault: impl Future<Output = ()>) {
        let id = self.log.begin(kind);
        self.log_fault(|| format!("fault: {}", kind.name()));
        fault.await;
        self.log.end(id);
    }

    /// Makes the server lose every session, and announce it in one of the ways that servers do.
    async fn lose_sessions(&mut self, control: &Control, kind: FaultKind) {
        let all = session_loss_responses();
        let signature = (kind == FaultKind::SessionsLost).then(|| all[self.rng.usize(..all.len())].clone());
        let lose = async {
            if let Some(signature) = signature {
                self.log_fault(|| format!("unknown sessions get {signature:?}"));
                control.edit(|script| script.unknown_session_response(signature));
            }
            control.drop_sessions();
        };
        self.inject(kind, lose).await;
    }

    async fn restart(&mut self, server: &HttpServer) {
        let down = self.random_duration(20, 1200);
        let restart = async {
            server.stop().await;
            sleep(down).await;
            server.start().await;
        };
        self.inject(FaultKind::Restart, restart).await;
    }

    async fn end_connections(&mut self, server: &HttpServer) {
        if self.rng.bool() {
            self.inject(FaultKind::ConnectionsReset, server.reset_connections()).await;
        } else {
            self.inject(FaultKind::ConnectionsClosed, server.close_connections()).await;
        }
    }

    /// Arms a fault that strikes the next call, before or after it is executed.
    fn arm_http(&mut self, control: &Control) {
        let (kind, fault) = match self.rng.u8(..7) {
            0 => (FaultKind::Reset, Fault::reset()),
            1 => (FaultKind::Closed, Fault::close()),
            2 => {
                (FaultKind::Status502, Fault::response(CannedResponse::new(502).html("<h1>Bad Gateway</h1>")))
            }
            3 => (FaultKind::Status503, Fault::response(CannedResponse::new(503).header("retry-after", "1"))),
            4 => (FaultKind::ReplyCut, Fault::cut_after(self.rng.u64(..120))),
            5 => (FaultKind::Slow, Fault::delay(self.random_duration(50, 2000))),
            _ => (FaultKind::NoAnswer, Fault::silent()),
        };
        self.arm(control, kind, fault);
    }

    fn arm_events(&mut self, control: &Control) {
        let (kind, fault) = match self.rng.u8(..4) {
            0 => (FaultKind::Reset, Fault::reset()),
            1 => (FaultKind::Status503, Fault::status(503)),
            2 => (FaultKind::Slow, Fault::delay(self.random_duration(50, 2000))),
            _ => (FaultKind::NoAnswer, Fault::silent()),
        };
        self.arm(control, kind, fault);
    }

    fn arm_stdio(&mut self, control: &Control) {
        let (kind, fault) = match self.rng.u8(..6) {
            0 => (FaultKind::Exit, Fault::exit(i32::from(self.rng.u8(..4)))),
            1 => (FaultKind::LineCut, Fault::cut_after(self.rng.u64(..60))),
            2 => (
                FaultKind::Noise,
                Fault::noise(
                    ["listening on stdio", "{\"not\": \"a message\"}", "\u{7f}%"][self.rng.usize(..3)],
                ),
            ),
            3 => (FaultKind::StderrFlood, Fault::stderr(self.rng.u64(100_000..2_000_000))),
            4 => (FaultKind::Slow, Fault::delay(self.random_duration(50, 2000))),
            _ => (FaultKind::NoAnswer, Fault::silent()),
        };
        self.arm(control, kind, fault);
    }

    fn arm(&mut self, control: &Control, kind: FaultKind, fault: Fault) {
        let fault = fault.on("tools/call");
        let fault = if self.rng.bool() { fault.executed() } else { fault };
        self.log_fault(|| format!("armed: {fault:?}"));
        let id = self.log.begin(kind);
        control.arm(fault);
        self.log.mark_armed(id);
    }

    /// Injects a fault into the network between client and server.
    async fn disturb_network(&mut self, proxy: &FaultProxy) {
        let (kind, rules, lasting) = match self.rng.u8(..6) {
            0 => {
                let rules =
                    if self.rng.bool() { ProxyRules::new().stall() } else { ProxyRules::new().stall_reply() };
                (FaultKind::Stall, rules, self.random_duration(100, 1500))
            }
            1 => (
                FaultKind::Delay,
                ProxyRules::new().delay(self.random_duration(5, 100)),
                self.random_duration(100, 1000),
            ),
            2 => {
                let rules = ProxyRules::new().cut_reply_after(self.rng.u64(..600)).with_reset();
                (FaultKind::ReplyCut, rules, self.random_duration(20, 200))
            }
            3 => {
                let rules = ProxyRules::new().cut_request_after(self.rng.u64(..600));
                (FaultKind::RequestCut, rules, self.random_duration(20, 200))
            }
            4 => {
                let down = self.random_duration(20, 1200);
                let refuse = async {
                    proxy.refuse_connections().await;
                    proxy.reset_all().await;
                    sleep(down).await;
                    proxy.accept_connections().await;
                };
                return self.inject(FaultKind::Refused, refuse).await;
            }
            _ => return self.inject(FaultKind::ConnectionsReset, proxy.reset_all()).await,
        };
        let bend = async {
            proxy.set_rules(rules);
            sleep(lasting).await;
            proxy.set_rules(ProxyRules::new());
        };
        self.inject(kind, bend).await;
    }

    /// Sends SIGKILL to one of the server's processes.
    async fn kill(&mut self, server: &StdioServer) {
        let mut running = server.processes();
        running.retain(|process| process.is_running() && process.pid != 0);
        if running.is_empty() {
            return;
        }
        let pid = running[self.rng.usize(..running.len())].pid;
        self.inject(FaultKind::Killed, async { kill(pid) }).await;
    }

    fn random_duration(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.rng.u64(low..high))
    }
}

/// Poll interval that bounds how exactly the time of an armed fault is known.
const ARMED_POLL_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(unix)]
fn kill(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The process may have ended by itself in this moment.
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill(pid: u32) {
    let mut command = std::process::Command::new("taskkill");
    let _ = command.args(["/F", "/PID", &pid.to_string()]).output();
}

/// Returns the responses that servers send when they no longer know a session.
fn session_loss_responses() -> Vec<CannedResponse> {
    let rpc = |code: i64, message: &str| -> Value {
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } })
    };
    let own = |code: i64, message: &str| -> Value {
        json!({ "jsonrpc": "2.0", "id": "$id", "error": { "code": code, "message": message } })
    };
    vec![
        CannedResponse::new(404).json(&rpc(-32001, "Session not found")),
        CannedResponse::new(404),
        CannedResponse::new(404).text("Not Found: Session not found"),
        CannedResponse::new(400).text("Bad Request: No valid session ID provided"),
        CannedResponse::new(400).json(&rpc(-32600, "Bad Request: Missing session ID")),
        CannedResponse::new(400).json(&own(-32000, "Bad Request: Server not initialized")),
        CannedResponse::new(400).sse(&own(-32000, "Bad Request: Server not initialized")),
        CannedResponse::new(401).text("Unauthorized: Session not found"),
        CannedResponse::new(410),
        CannedResponse::new(422).text("Unexpected message, expect initialize request"),
        CannedResponse::new(200).json(&own(-32001, "session not found")),
    ]
}
