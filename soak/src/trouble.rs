//! Trouble: which fault strikes a world next, and for how long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_testkit::{Answer, Control, Fault, FaultProxy, HttpServer, Rules, StdioServer};
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::book::Book;
use crate::world::{Faults, Place, World};

/// Strikes a world again and again, and leaves it whole.
pub(crate) fn start(world: &World, until: Instant) -> JoinHandle<()> {
    let mut trouble = Trouble {
        place: Arc::clone(&world.place),
        faults: Arc::clone(&world.faults),
        book: Arc::clone(&world.book),
        rng: Rng::with_seed(world.seed),
    };
    tokio::spawn(async move {
        let control = trouble.place.control();
        loop {
            let pause = trouble.between(100, 900);
            sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
            if Instant::now() >= until {
                break;
            }
            trouble.strike(&control).await;
            // The record of every message would fill the memory.
            control.forget_received();
        }
        control.disarm();
    })
}

struct Trouble {
    place: Arc<Place>,
    faults: Arc<Faults>,
    book: Arc<Book>,
    rng: Rng,
}

impl Trouble {
    async fn strike(&mut self, control: &Control) {
        let place = Arc::clone(&self.place);
        match &*place {
            Place::Http(server) => match self.rng.u8(..10) {
                0..3 => self.lose_sessions(control, true),
                3 => self.restart(server).await,
                4 => self.end_connections(server).await,
                _ => self.arm_http(control),
            },
            Place::Proxied(server, proxy) => match self.rng.u8(..10) {
                0..2 => self.lose_sessions(control, true),
                2 => self.restart(server).await,
                _ => self.bend(proxy).await,
            },
            Place::Events(server) => match self.rng.u8(..10) {
                0..2 => self.lose_sessions(control, false),
                2..4 => self.restart(server).await,
                4 => self.end_connections(server).await,
                5 => {
                    self.note("streams closed");
                    server.close_streams();
                }
                _ => self.arm_events(control),
            },
            Place::Stdio(server) => match self.rng.u8(..10) {
                0..2 => self.kill(server),
                _ => self.arm_stdio(control),
            },
        }
    }

    fn note(&self, kind: &'static str) {
        self.faults.count(kind);
        self.book.say(|| format!("fault: {kind}"));
    }

    /// The server forgets every session, and says so in one of the ways that servers do.
    fn lose_sessions(&mut self, control: &Control, streamable: bool) {
        self.note("sessions lost");
        if streamable {
            let all = signatures();
            let signature = all[self.rng.usize(..all.len())].clone();
            self.book.say(|| format!("unknown sessions get {signature:?}"));
            control.edit(|script| script.session_gone(signature));
        }
        control.drop_sessions();
    }

    async fn restart(&mut self, server: &HttpServer) {
        self.note("restart");
        server.stop().await;
        sleep(self.between(20, 1200)).await;
        server.start().await;
    }

    async fn end_connections(&mut self, server: &HttpServer) {
        if self.rng.bool() {
            self.note("connections reset");
            server.reset_connections().await;
        } else {
            self.note("connections closed");
            server.close_connections().await;
        }
    }

    /// Something happens to the next call, before or after it is carried out.
    fn arm_http(&mut self, control: &Control) {
        let (kind, fault) = match self.rng.u8(..7) {
            0 => ("reset", Fault::reset()),
            1 => ("closed", Fault::close()),
            2 => ("status 502", Fault::answer(Answer::new(502).html("<h1>Bad Gateway</h1>"))),
            3 => ("status 503", Fault::answer(Answer::new(503).header("retry-after", "1"))),
            4 => ("reply cut", Fault::cut_after(self.rng.u64(..120))),
            5 => ("slow", Fault::delay(self.between(50, 2000))),
            _ => ("no answer", Fault::silent()),
        };
        self.arm(control, kind, fault);
    }

    fn arm_events(&mut self, control: &Control) {
        let (kind, fault) = match self.rng.u8(..4) {
            0 => ("reset", Fault::reset()),
            1 => ("status 503", Fault::status(503)),
            2 => ("slow", Fault::delay(self.between(50, 2000))),
            _ => ("no answer", Fault::silent()),
        };
        self.arm(control, kind, fault);
    }

    fn arm_stdio(&mut self, control: &Control) {
        let (kind, fault) = match self.rng.u8(..6) {
            0 => ("exit", Fault::exit(i32::from(self.rng.u8(..4)))),
            1 => ("line cut", Fault::cut_after(self.rng.u64(..60))),
            2 => (
                "noise",
                Fault::noise(
                    ["listening on stdio", "{\"not\": \"a message\"}", "\u{7f}%"][self.rng.usize(..3)],
                ),
            ),
            3 => ("stderr flood", Fault::stderr(self.rng.u64(100_000..2_000_000))),
            4 => ("slow", Fault::delay(self.between(50, 2000))),
            _ => ("no answer", Fault::silent()),
        };
        self.arm(control, kind, fault);
    }

    fn arm(&mut self, control: &Control, kind: &'static str, fault: Fault) {
        self.note(kind);
        let fault = fault.on("tools/call");
        let fault = if self.rng.bool() { fault.executed() } else { fault };
        self.book.say(|| format!("armed: {fault:?}"));
        control.arm(fault);
    }

    /// The network between the two.
    async fn bend(&mut self, proxy: &FaultProxy) {
        match self.rng.u8(..6) {
            0 => {
                self.note("stall");
                proxy.set(if self.rng.bool() { Rules::new().stall() } else { Rules::new().stall_reply() });
                sleep(self.between(100, 1500)).await;
            }
            1 => {
                self.note("delay");
                proxy.set(Rules::new().delay(self.between(5, 100)));
                sleep(self.between(100, 1000)).await;
            }
            2 => {
                self.note("reply cut");
                proxy.set(Rules::new().cut_reply_after(self.rng.u64(..600)).with_reset());
                sleep(self.between(20, 200)).await;
            }
            3 => {
                self.note("request cut");
                proxy.set(Rules::new().cut_request_after(self.rng.u64(..600)));
                sleep(self.between(20, 200)).await;
            }
            4 => {
                self.note("refused");
                proxy.refuse().await;
                proxy.reset_all().await;
                sleep(self.between(20, 1200)).await;
                proxy.accept().await;
            }
            _ => {
                self.note("connections reset");
                proxy.reset_all().await;
            }
        }
        proxy.set(Rules::new());
    }

    /// SIGKILL to one of the server's processes.
    fn kill(&mut self, server: &StdioServer) {
        let mut running = server.processes();
        running.retain(|process| process.running() && process.pid != 0);
        if running.is_empty() {
            return;
        }
        self.note("killed");
        kill(running[self.rng.usize(..running.len())].pid);
    }

    fn between(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.rng.u64(low..high))
    }
}

#[cfg(unix)]
fn kill(pid: u32) {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    if let Ok(pid) = i32::try_from(pid) {
        // It may have ended by itself in this moment.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(not(unix))]
fn kill(pid: u32) {
    let mut command = std::process::Command::new("taskkill");
    let _ = command.args(["/F", "/PID", &pid.to_string()]).output();
}

/// What servers send when they no longer know a session.
fn signatures() -> Vec<Answer> {
    let rpc = |code: i64, message: &str| -> Value {
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } })
    };
    let own = |code: i64, message: &str| -> Value {
        json!({ "jsonrpc": "2.0", "id": "$id", "error": { "code": code, "message": message } })
    };
    vec![
        Answer::new(404).json(&rpc(-32001, "Session not found")),
        Answer::new(404),
        Answer::new(404).text("Not Found: Session not found"),
        Answer::new(400).text("Bad Request: No valid session ID provided"),
        Answer::new(400).json(&rpc(-32600, "Bad Request: Missing session ID")),
        Answer::new(400).json(&own(-32000, "Bad Request: Server not initialized")),
        Answer::new(400).sse(&own(-32000, "Bad Request: Server not initialized")),
        Answer::new(401).text("Unauthorized: Session not found"),
        Answer::new(410),
        Answer::new(422).text("Unexpected message, expect initialize request"),
        Answer::new(200).json(&own(-32001, "session not found")),
    ]
}
