//! The director in the test: it executes the script for one stdio process.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::wire::{Down, Up};
use super::{Process, ProcessEvent};
use crate::engine::{Engine, Outlet, Plan, Via, Work};
use crate::fault::{Kind, Struck};
use crate::host::Tasks;
use crate::ledger::{Received, tool_of};
use crate::rpc::{self, PARSE_ERROR};
use crate::sync::pause;

/// Directs one process until its connection closes.
pub(super) async fn direct(
    engine: Arc<Engine>,
    tasks: Tasks,
    process: Arc<Process>,
    mut up: impl AsyncRead + Unpin,
    mut down: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (orders, mut queue) = mpsc::unbounded_channel::<Down>();
    let writing = tasks.spawn(async move {
        while let Some(order) = queue.recv().await {
            if order.write(&mut down).await.is_err() {
                break;
            }
        }
    });
    let director = Arc::new(Director { engine, tasks, process, orders });
    let ended = director.listen(&mut up).await;
    writing.abort();
    director.process.note(ProcessEvent::Ended);
    director.engine.abandon_calls(&director.session());
    director.engine.close_session(&director.session());
    director.engine.ledger.touch();
    ended
}

struct Director {
    engine: Arc<Engine>,
    tasks: Tasks,
    process: Arc<Process>,
    orders: UnboundedSender<Down>,
}

impl Director {
    async fn listen(self: &Arc<Self>, up: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        loop {
            match Up::read(up).await? {
                Up::Hello { pid } => {
                    self.process.started(pid, self.orders.clone());
                    let outlet = Arc::new(Stdout(self.orders.clone()));
                    self.engine.register(Via::Any, Some(&self.session()), outlet);
                }
                Up::Line(line) => self.line(&line),
                Up::Eof => {
                    self.process.note(ProcessEvent::Eof);
                    if !self.engine.armed.holds(&Kind::IgnoreEof) {
                        self.order(Down::Exit(0));
                    }
                }
                Up::Term => {
                    self.process.note(ProcessEvent::Term);
                    if !self.engine.armed.holds(&Kind::IgnoreTerm) {
                        self.order(Down::Die(128 + 15));
                    }
                }
                Up::Grandchild { pid } => self.process.grandchild(pid),
            }
            self.engine.ledger.touch();
        }
    }

    fn line(self: &Arc<Self>, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let message: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
        let method = match &message["method"] {
            Value::String(method) => method.clone(),
            _ => "response".to_owned(),
        };
        let struck = self.engine.armed.take(&method, tool_of(&message));
        self.engine.ledger.record(Received {
            seq: 0,
            run: 0,
            connection: u64::from(self.process.number),
            http: String::new(),
            path: String::new(),
            headers: Vec::new(),
            session: None,
            method,
            body: message.clone(),
        });
        for fault in &struck.adds {
            match &fault.kind {
                Kind::Noise(text) => self.write(text.as_bytes()),
                Kind::Stderr(count) => self.order(Down::Stderr(*count)),
                Kind::Grandchild => self.order(Down::Spawn),
                _ => {}
            }
        }
        if struck.delay(false).is_zero() {
            self.clone().take_in(struck, &message);
        } else {
            let director = self.clone();
            self.tasks.spawn(async move {
                pause(struck.delay(false)).await;
                director.take_in(struck, &message);
            });
        }
    }

    fn take_in(self: Arc<Self>, struck: Struck, message: &Value) {
        let id = message.get("id").unwrap_or(&Value::Null);
        match struck.before() {
            Some(Kind::Exit(code)) => return self.order(Down::Exit(*code)),
            Some(Kind::Error(error)) => {
                return self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Some(_) => return,
            None => {}
        }
        if !message.is_object() {
            return self.say(&rpc::error(&Value::Null, PARSE_ERROR, "Parse error"));
        }
        let era = self.engine.era(message, None);
        let session = self.session();
        match self.engine.handle(era, Some(&session), message) {
            Plan::Accepted => {
                if let Some(Kind::Exit(code)) = struck.after() {
                    self.order(Down::Exit(*code));
                }
            }
            Plan::Listen { listening, acknowledged } => {
                self.say(&acknowledged);
                let outlet = Arc::new(Stdout(self.orders.clone()));
                self.engine.register_listener(Some(&session), listening, outlet);
            }
            Plan::Work(work) => self.work(struck, work),
        }
    }

    fn work(self: Arc<Self>, struck: Struck, work: Work) {
        let (engine, session, id) = (self.engine.clone(), self.session(), work.id.clone());
        // A response without steps or delay is sent before the next line is processed.
        let at_once = work.steps.is_empty() && struck.delay(true).is_zero();
        if at_once {
            return self.answer(struck.after(), (work.finish)(Vec::new()));
        }
        // The task is registered before it can run, because it unregisters itself at its end.
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let (tasks, key, call) = (self.tasks.clone(), session.clone(), id.clone());
        let task = tasks.spawn(async move {
            let _ = wait.await;
            let outlet = Arc::new(Stdout(self.orders.clone()));
            let response = self.engine.carry_out(work, outlet).await;
            pause(struck.delay(true)).await;
            self.answer(struck.after(), response);
            self.engine.ended(Some(&key), &call);
        });
        engine.began(Some(&session), &id, task.abort_handle());
        let _ = go.send(());
    }

    fn answer(&self, fault: Option<&Kind>, response: Value) {
        match fault {
            None => self.say(&response),
            Some(Kind::Reply(result)) => self.say(&rpc::result(&response["id"], result.clone())),
            Some(Kind::Error(error)) => {
                self.say(&json!({"jsonrpc": "2.0", "id": response["id"], "error": error}));
            }
            Some(Kind::Raw { bytes, .. }) => self.write(bytes),
            Some(Kind::CutAfter(bytes)) => {
                let mut line = response.to_string().into_bytes();
                line.truncate(usize::try_from(*bytes).unwrap_or(usize::MAX));
                self.order(Down::Stdout(line));
                self.order(Down::Exit(1));
            }
            Some(Kind::Exit(code)) => self.order(Down::Exit(*code)),
            // Silence; faults of HTTP are rejected when they are armed.
            Some(_) => {}
        }
    }

    fn say(&self, message: &Value) {
        self.write(message.to_string().as_bytes());
    }

    fn write(&self, line: &[u8]) {
        self.order(Down::Stdout([line, b"\n"].concat()));
    }

    /// Sends an order. A process that has exited ignores it.
    fn order(&self, order: Down) {
        let _ = self.orders.send(order);
    }

    fn session(&self) -> String {
        format!("process-{}", self.process.number)
    }
}

struct Stdout(UnboundedSender<Down>);

impl Outlet for Stdout {
    fn say(&self, message: Value) -> bool {
        self.0.send(Down::Stdout(format!("{message}\n").into_bytes())).is_ok()
    }

    fn is_open(&self) -> bool {
        !self.0.is_closed()
    }
}
