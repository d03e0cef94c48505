//! Implements `bowline demo`: a server in this process causes failures while calls through the
//! library go on. It needs no configuration and no network, and leaves nothing behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline::types::Progress;
use bowline::{CallOptions, Client, ConnectionEventKind, Event, Server};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::args::DemoArgs;
use crate::demo::{self, CallRecorder, DemoServer, DemoState, DemoView, Plan, Summary};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::print::{FAINT, Printer, STRONG, escape, units};
use crate::settings::Settings;

pub(super) async fn run(args: DemoArgs, settings: &Settings) -> Outcome {
    let DemoArgs { seconds, seed } = args;
    // Short enough to be typed again.
    let seed = seed.unwrap_or_else(|| fastrand::u64(..10_000));
    let printer = &settings.printer;
    let mut interrupt = Interrupt::listen();
    let unheard = |error| Failure::usage(format!("cannot listen on a local port: {error}"));
    let knots = DemoServer::start().await.map_err(unheard)?;
    let state = knots.state.clone();
    let server = Server::http("demo", knots.url()).build().expect("our own URL is good");
    let client = Client::builder(server.clone())
        .client_info("bowline", env!("CARGO_PKG_VERSION"))
        .open()
        .map_err(|error| Failure::call(&error, &server, &settings.command_line))?;
    tokio::select! {
        told = introduce(settings, &client, &server) => told?,
        exit = interrupt.next() => return Err(Failure::Signal(exit)),
    }
    print_text(
        printer,
        &format!("\n{}\n", printer.paint(STRONG, &format!("Trouble for {seconds} s, seed {seed}"))),
    )?;

    let run = DemoRun { seed, duration: Duration::from_secs(seconds), printer, state: state.clone() };
    let summary = run.run(knots, client, &mut interrupt).await?;
    if printer.is_json() {
        printer.write_json(&summary.to_json().to_string())?;
    } else {
        printer.write_layout(&format!("\n{}", demo::render_summary(printer, &summary)))?;
        printer.write_layout(&format!("\n{}\n", printer.paint(FAINT, NEXT_STEPS)))?;
    }
    Ok(summary.exit())
}

const NEXT_STEPS: &str = "\
Now with a server of yours:
  bowline info -- npx -y @modelcontextprotocol/server-everything
  bowline tools https://mcp.example.com/mcp";

/// Prints the server, its tools, and the result of one call.
async fn introduce(settings: &Settings, client: &Client, server: &Server) -> Outcome<()> {
    let printer = &settings.printer;
    let failed = |error: bowline::Error| Failure::call(&error, server, &settings.command_line);
    let peer = client.ready().await.map_err(failed)?;
    if let Some(who) = &peer.server {
        let who = format!("{} {}, protocol {}", who.name, who.version, peer.revision.as_str());
        print_text(printer, &format!("A server in this process: {}\n", escape::line(&who)))?;
    }
    for tool in client.list_tools().await.map_err(failed)? {
        let about = tool.description().unwrap_or_default();
        print_text(printer, &format!("   {:<10}{}\n", escape::line(&tool.name), escape::line(&about)))?;
    }
    print_text(printer, &format!("\n{}\n", printer.paint(STRONG, "A call: tie")))?;
    let (sender, mut progress) = mpsc::unbounded_channel::<Progress>();
    let options = CallOptions::new().on_progress(move |progress| drop(sender.send(progress)));
    let result = client.call_tool_with("tie", &json!({}), &options).await.map_err(failed)?;
    while let Ok(Progress { progress, message, .. }) = progress.try_recv() {
        let message = message.unwrap_or_default();
        print_text(printer, &format!("   {progress}. {}\n", escape::line(&message)))?;
    }
    print_text(printer, &format!("   {}\n", escape::line(&result.text())))
}

fn print_text(printer: &Printer, text: &str) -> Outcome<()> {
    if printer.is_json() { Ok(()) } else { Ok(printer.write_layout(text)?) }
}

/// One run of the demo, from the first failure to the last response.
struct DemoRun<'a> {
    seed: u64,
    duration: Duration,
    printer: &'a Printer,
    state: DemoState,
}

impl DemoRun<'_> {
    async fn run(self, knots: DemoServer, client: Client, interrupt: &mut Interrupt) -> Outcome<Summary> {
        let started = Instant::now();
        let board = Arc::new(CallRecorder::new(started));
        let (stop, stopped) = watch::channel(false);
        let (news_in, mut news) = mpsc::unbounded_channel();
        let mut events = client.events();
        let until = started + self.duration;
        let trouble = demo::make_trouble(knots, Plan::new(self.seed), until, news_in, stopped.clone());
        let calls = demo::call_steadily(client.clone(), Arc::clone(&board), stopped);
        let mut both = std::pin::pin!(async { tokio::join!(trouble, calls) });

        let mut show = DemoView::start(self.printer)?;
        let mut now = "is well".to_owned();
        let mut interrupted = None;
        let mut pictures = tokio::time::interval(FRAME_INTERVAL);
        pictures.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let knots = loop {
            tokio::select! {
                (knots, ()) = &mut both => break knots,
                Some((at, trouble)) = news.recv() => {
                    board.record_trouble(trouble);
                    now = demo::describe_trouble(trouble);
                    show.print_event(at.duration_since(started), &format!("the server {now}"))?;
                }
                event = events.next() => match event {
                    Some(event) => self.record_event(&event, &board, &show, started)?,
                    // The client is ours and still open.
                    None => std::future::pending().await,
                },
                _ = pictures.tick() => {
                    if started.elapsed() >= self.duration {
                        stop.send_replace(true);
                    }
                    show.draw(&self.summary(&board, started, interrupted), self.duration, &now)?;
                }
                exit = interrupt.next() => {
                    // The first signal ends the run, the second one the process.
                    if interrupted.replace(exit).is_some() {
                        return Err(Failure::Signal(exit));
                    }
                    stop.send_replace(true);
                }
            }
        };
        let elapsed = started.elapsed();
        // Events of the last calls may arrive after their responses.
        while let Some(event) = events.try_next() {
            self.record_event(&event, &board, &show, started)?;
        }
        drop(show);
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
        let unheard = |error| Failure::usage(format!("the server could not come back: {error}"));
        drop(knots.map_err(unheard)?);
        let mut summary = self.summary(&board, started, interrupted);
        summary.elapsed = elapsed;
        summary.never_ran = self.state.ledger(|ledger| ledger.never_ran(&summary.tally.answered));
        Ok(summary)
    }

    /// Records a connection event, and shows a recovery.
    fn record_event(
        &self,
        event: &Event,
        board: &CallRecorder,
        show: &DemoView<'_>,
        started: Instant,
    ) -> Outcome<()> {
        let Event::Connection(life) = event else { return Ok(()) };
        board.record_connection_event(life, self.state.signature());
        if let (ConnectionEventKind::Recovered, Some(outage)) = (life.kind, life.outage) {
            let what = format!("the client recovered in {}", units::time(outage));
            show.print_event(started.elapsed(), &what)?;
        }
        Ok(())
    }

    fn summary(&self, board: &CallRecorder, started: Instant, interrupted: Option<Exit>) -> Summary {
        Summary {
            seed: self.seed,
            elapsed: started.elapsed(),
            interrupted,
            tally: board.tally(),
            counters: self.state.counters(),
            executions: self.state.ledger(|ledger| ledger.count),
            never_ran: 0,
        }
    }
}

const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// How long closing the client may take; the server is in the same process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
