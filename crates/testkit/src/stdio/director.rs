//! The director in the test: it executes the script for one stdio process.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::wire::{ProcessOrder, ProcessReport};
use super::{Process, ProcessEvent};
use crate::armed_faults::MatchedFaults;
use crate::engine::{Engine, Outlet, PendingResponse, ResponsePlan, StreamKind};
use crate::fault::FaultKind;
use crate::message_log::{ReceivedMessage, called_tool};
use crate::rpc::{self, PARSE_ERROR};
use crate::server_thread::Spawner;
use crate::sync::pause;

/// Directs one process until its connection closes.
pub(super) async fn direct_process(
    engine: Arc<Engine>,
    tasks: Spawner,
    process: Arc<Process>,
    mut up: impl AsyncRead + Unpin,
    mut down: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (orders, mut queue) = mpsc::unbounded_channel::<ProcessOrder>();
    let writing = tasks.spawn(async move {
        while let Some(order) = queue.recv().await {
            if order.write(&mut down).await.is_err() {
                break;
            }
        }
    });
    let director = Arc::new(Director { engine, spawner: tasks, process, orders });
    let ended = director.handle_reports(&mut up).await;
    writing.abort();
    director.process.record_event(ProcessEvent::Ended);
    director.engine.abort_session_calls(&director.session_id());
    director.engine.close_session(&director.session_id());
    director.engine.message_log.notify_waiters();
    ended
}

struct Director {
    engine: Arc<Engine>,
    spawner: Spawner,
    process: Arc<Process>,
    orders: UnboundedSender<ProcessOrder>,
}

impl Director {
    async fn handle_reports(self: &Arc<Self>, up: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        loop {
            match ProcessReport::read(up).await? {
                ProcessReport::Started { pid } => {
                    self.process.record_start(pid, self.orders.clone());
                    let outlet = Arc::new(StdoutOutlet(self.orders.clone()));
                    self.engine.register_outlet(StreamKind::Any, Some(&self.session_id()), outlet);
                }
                ProcessReport::Line(line) => self.handle_line(&line),
                ProcessReport::Eof => {
                    self.process.record_event(ProcessEvent::Eof);
                    if !self.engine.armed.contains_kind(&FaultKind::IgnoreEof) {
                        self.send_order(ProcessOrder::Exit(0));
                    }
                }
                ProcessReport::Term => {
                    self.process.record_event(ProcessEvent::Term);
                    if !self.engine.armed.contains_kind(&FaultKind::IgnoreTerm) {
                        self.send_order(ProcessOrder::Die(128 + 15));
                    }
                }
                ProcessReport::Grandchild { pid } => self.process.record_grandchild(pid),
            }
            self.engine.message_log.notify_waiters();
        }
    }

    fn handle_line(self: &Arc<Self>, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let message: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
        let method = match &message["method"] {
            Value::String(method) => method.clone(),
            _ => "response".to_owned(),
        };
        let faults = self.engine.armed.take_matching(&[&method], called_tool(&message));
        self.engine.message_log.record(ReceivedMessage {
            seq: 0,
            run: 0,
            connection: u64::from(self.process.number),
            http_method: String::new(),
            path: String::new(),
            headers: Vec::new(),
            session: None,
            method,
            body: message.clone(),
        });
        for fault in &faults.additive {
            match &fault.kind {
                FaultKind::Noise(text) => self.write_line(text.as_bytes()),
                FaultKind::Stderr(count) => self.send_order(ProcessOrder::Stderr(*count)),
                FaultKind::Grandchild => self.send_order(ProcessOrder::Spawn),
                _ => {}
            }
        }
        if faults.delay(false).is_zero() {
            self.clone().handle_message(faults, &message);
        } else {
            let director = self.clone();
            self.spawner.spawn(async move {
                pause(faults.delay(false)).await;
                director.handle_message(faults, &message);
            });
        }
    }

    fn handle_message(self: Arc<Self>, faults: MatchedFaults<FaultKind>, message: &Value) {
        let id = message.get("id").unwrap_or(&Value::Null);
        match faults.before_execution() {
            Some(FaultKind::Exit(code)) => return self.send_order(ProcessOrder::Exit(*code)),
            Some(FaultKind::Error(error)) => {
                return self.send_message(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Some(_) => return,
            None => {}
        }
        if !message.is_object() {
            return self.send_message(&rpc::error(&Value::Null, PARSE_ERROR, "Parse error"));
        }
        let era = self.engine.message_era(message, None);
        let session = self.session_id();
        match self.engine.handle_message(era, Some(&session), message) {
            ResponsePlan::Accepted => {
                if let Some(FaultKind::Exit(code)) = faults.after_execution() {
                    self.send_order(ProcessOrder::Exit(*code));
                }
            }
            ResponsePlan::Subscribe { listening, acknowledged } => {
                self.send_message(&acknowledged);
                let outlet = Arc::new(StdoutOutlet(self.orders.clone()));
                self.engine.register_subscription(Some(&session), listening, outlet);
            }
            ResponsePlan::Work(work) => self.run_work(faults, work),
        }
    }

    fn run_work(self: Arc<Self>, faults: MatchedFaults<FaultKind>, work: PendingResponse) {
        let (engine, session, id) = (self.engine.clone(), self.session_id(), work.id.clone());
        // A response without steps or delay is sent before the next line is processed.
        let at_once = work.steps.is_empty() && faults.delay(true).is_zero();
        if at_once {
            return self.respond(faults.after_execution(), (work.finish)(Vec::new()));
        }
        // The task is registered before it can run, because it unregisters itself at its end.
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let (tasks, key, call) = (self.spawner.clone(), session.clone(), id.clone());
        let task = tasks.spawn(async move {
            let _ = wait.await;
            let outlet = Arc::new(StdoutOutlet(self.orders.clone()));
            let response = self.engine.run_steps(work, outlet).await;
            pause(faults.delay(true)).await;
            self.respond(faults.after_execution(), response);
            self.engine.unregister_call(Some(&key), &call);
        });
        engine.register_call(Some(&session), &id, task.abort_handle());
        let _ = go.send(());
    }

    fn respond(&self, fault: Option<&FaultKind>, response: Value) {
        match fault {
            None => self.send_message(&response),
            Some(FaultKind::Reply(result)) => {
                self.send_message(&rpc::result(&response["id"], result.clone()));
            }
            Some(FaultKind::Error(error)) => {
                self.send_message(&json!({"jsonrpc": "2.0", "id": response["id"], "error": error}));
            }
            Some(FaultKind::Raw { bytes, .. }) => self.write_line(bytes),
            Some(FaultKind::CutAfter(bytes)) => {
                let mut line = response.to_string().into_bytes();
                line.truncate(usize::try_from(*bytes).unwrap_or(usize::MAX));
                self.send_order(ProcessOrder::Stdout(line));
                self.send_order(ProcessOrder::Exit(1));
            }
            Some(FaultKind::Exit(code)) => self.send_order(ProcessOrder::Exit(*code)),
            // Silence; faults of HTTP are rejected when they are armed.
            Some(_) => {}
        }
    }

    fn send_message(&self, message: &Value) {
        self.write_line(message.to_string().as_bytes());
    }

    fn write_line(&self, line: &[u8]) {
        self.send_order(ProcessOrder::Stdout([line, b"\n"].concat()));
    }

    /// Sends an order. A process that has exited ignores it.
    fn send_order(&self, order: ProcessOrder) {
        let _ = self.orders.send(order);
    }

    fn session_id(&self) -> String {
        format!("process-{}", self.process.number)
    }
}

struct StdoutOutlet(UnboundedSender<ProcessOrder>);

impl Outlet for StdoutOutlet {
    fn send(&self, message: Value) -> bool {
        self.0.send(ProcessOrder::Stdout(format!("{message}\n").into_bytes())).is_ok()
    }

    fn is_open(&self) -> bool {
        !self.0.is_closed()
    }
}
