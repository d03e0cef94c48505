//! `bowline demo`: a story in six steps, told while it happens. It needs no configuration and no
//! network, and leaves nothing behind.

use std::io;
use std::time::Instant;

use bowline::config::{Server, Transport};
use bowline::view::{Body, Progress};
use bowline::{CallOptions, Client, Era};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::demo::DemoServer;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::{FAINT, GOOD, Printer, STRONG, escape, units};
use crate::session;
use crate::settings::Settings;

pub(super) async fn run(settings: &Settings) -> Outcome {
    let started = Instant::now();
    let mut story = Story { printer: &settings.printer, steps: Vec::new() };
    let knots = DemoServer::start()
        .await
        .map_err(|error| Failure::usage(format!("no loopback port can be listened on: {error}")))?;
    let server = Server::http("demo", knots.url()).expect("our own URL is good");
    story.intro("A small MCP server runs in this process; a client connects to it and uses it.")?;

    let builder = Client::builder(server.clone());
    session::with_builder(story.printer, &server, builder, async |client| {
        let failed = |error: bowline::Error| Failure::call(&error, &server);
        story.step("Connect")?;
        connected(&mut story, client, &server).await?;

        story.step("List")?;
        for tool in client.list_tools().await.map_err(failed)? {
            story.line(&format!(
                "{:<9}{:<17}{}",
                "tool",
                tool.name,
                tool.description().unwrap_or_default()
            ))?;
        }
        for resource in client.list_resources().await.map_err(failed)? {
            story.line(&format!(
                "{:<9}{:<17}{}",
                "resource",
                resource.uri,
                resource.description().unwrap_or_default()
            ))?;
        }

        story.step("Call a tool that takes its time: tie knot=bowline")?;
        tie(&mut story, client, &server).await?;

        story.step("Call a tool with a structured result: strength millimetres=11")?;
        let result = client.call_tool("strength", &json!({"millimetres": 11})).await.map_err(failed)?;
        let structured = result.structured.map(|json| json.to_string()).unwrap_or_default();
        story.line(&structured)?;

        story.step("Call a tool that fails: tie knot=granny")?;
        let result = client.call_tool("tie", &json!({"knot": "granny"})).await.map_err(failed)?;
        story.line(&format!("isError: {}: {}", result.is_error, result.text()))?;

        story.step("Read a resource: knot://bowline")?;
        let resource = client.read_resource("knot://bowline").await.map_err(failed)?;
        for part in resource.contents {
            if let Body::Text(text) = part.body {
                story.line(&text.get())?;
            }
        }
        Ok(())
    })
    .await?;

    story.step("Close")?;
    story.line(&format!("sessions left open on the server: {}", knots.open_sessions()))?;
    story.end(started)?;
    Ok(Exit::Ok)
}

async fn connected(story: &mut Story<'_>, client: &Client, server: &Server) -> Outcome<()> {
    let peer = client.server().await.map_err(|error| Failure::call(&error, server))?;
    let era = match peer.era() {
        Era::Legacy => "handshake and session",
        Era::Modern => "stateless",
    };
    if let Transport::Http(http) = &server.transport {
        story.line(&format!("{} over Streamable HTTP", http.url))?;
    }
    if let Some(who) = &peer.server {
        story.line(&format!("{} {}, protocol {} ({era})", who.name, who.version, peer.revision.as_str()))?;
    }
    Ok(())
}

/// Tells the progress while the call runs.
async fn tie(story: &mut Story<'_>, client: &Client, server: &Server) -> Outcome<()> {
    let (sender, mut progress) = mpsc::unbounded_channel::<Progress>();
    let options = CallOptions::new().on_progress(move |progress| drop(sender.send(progress)));
    let arguments = json!({"knot": "bowline"});
    let call = client.call_tool_with("tie", &arguments, &options);
    tokio::pin!(call);
    let result = loop {
        tokio::select! {
            biased;
            Some(progress) = progress.recv() => story.progress(&progress)?,
            result = &mut call => break result.map_err(|error| Failure::call(&error, server))?,
        }
    };
    while let Ok(progress) = progress.try_recv() {
        story.progress(&progress)?;
    }
    story.line(&result.text())
}

/// What happened so far: printed at once for people, at the end for machines.
struct Story<'a> {
    printer: &'a Printer,
    steps: Vec<(String, Vec<String>)>,
}

impl Story<'_> {
    fn intro(&self, text: &str) -> Outcome<()> {
        self.print(&format!("{text}\n"))
    }

    fn step(&mut self, title: &str) -> Outcome<()> {
        self.steps.push((title.to_owned(), Vec::new()));
        let heading = self.printer.paint(STRONG, &format!("{}. {title}", self.steps.len()));
        self.print(&format!("\n{heading}\n"))
    }

    fn line(&mut self, text: &str) -> Outcome<()> {
        if let Some((_, lines)) = self.steps.last_mut() {
            lines.push(text.to_owned());
        }
        self.print(&format!("   {}\n", escape::line(text)))
    }

    fn progress(&mut self, progress: &Progress) -> Outcome<()> {
        let total = progress.total.unwrap_or_default();
        let message = progress.message.as_deref().unwrap_or_default();
        self.line(&format!("{}/{total} {message}", progress.progress))
    }

    fn end(&self, started: Instant) -> Outcome<()> {
        if self.printer.is_json() {
            let steps = self.steps.iter().map(|(title, lines)| json!({"title": title, "lines": lines}));
            let steps: Vec<Value> = steps.collect();
            return Ok(self.printer.json(&json!({ "steps": steps }).to_string())?);
        }
        let done = self.printer.paint(GOOD, &format!("Done in {}.", units::time(started.elapsed())));
        let next = self.printer.paint(FAINT, NEXT);
        self.print(&format!("\n{done}\n\n{next}\n"))
    }

    fn print(&self, text: &str) -> Outcome<()> {
        let shown: io::Result<()> = if self.printer.is_json() { Ok(()) } else { self.printer.layout(text) };
        Ok(shown?)
    }
}

const NEXT: &str = "\
Now with a server of yours:
  bowline info -- npx -y @modelcontextprotocol/server-everything
  bowline tools https://mcp.example.com/mcp";
