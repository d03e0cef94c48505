//! Implements `bowline resources`: the list, and changes as they happen.
// RS-03, RS-04.

use std::collections::BTreeSet;
use std::time::{Instant, SystemTime};

use bowline::{Client, Event, ListKind, Server, Subscription, Topic};
use serde_json::{Value, json};

use super::list;
use super::logs::note_connection_event;
use crate::args::{ContentArgs, Images, ResourcesArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::content::Viewer;
use crate::print::log_line::{Admission, RateLimiter};
use crate::print::{FAINT, HINT, Printer, clock, escape, units};
use crate::session;
use crate::settings::Settings;
use crate::suggested_command::CommandLine;

pub(super) async fn run(args: ResourcesArgs, settings: &Settings) -> Outcome {
    let ResourcesArgs { watch, read, host: _, server } = args;
    let Some(uris) = watch else { return list::resources(server, settings).await };
    if uris.iter().any(String::is_empty) {
        return Err(Failure::usage("--watch: a URI is empty"));
    }
    let typed: Vec<&str> = uris.iter().map(String::as_str).collect();
    if let ([], [], [first, rest @ ..]) = (&*server.words, &*server.target.command, &*typed) {
        let right = [&["bowline resources", first, "--watch"], rest].concat().join(" ");
        return Err(Failure::usage_hint(
            format!("SERVER is missing: `{first}` comes after --watch, and so is one of its URIs"),
            format!("write `{right}`"),
        ));
    }
    let (_, server) = settings.resolve_server_args("resources", server)?;
    let content = ContentArgs { save: None, images: Images::Auto };
    let viewer = settings.viewer(content, "resource")?;
    let watch = ResourceWatch {
        printer: &settings.printer,
        command_line: &settings.command_line,
        server: &server,
        viewer,
        read,
        flood: RateLimiter::new(),
    };
    let ended = session::with_outcome(settings, &server, async |client| watch.run(client, &uris).await).await;
    match ended {
        // Ctrl-C is the only way to end the command.
        Err(Failure::Signal(Exit::Interrupted)) => Ok(Exit::Ok),
        ended => ended,
    }
}

struct ResourceWatch<'a> {
    printer: &'a Printer,
    command_line: &'a CommandLine,
    server: &'a Server,
    viewer: Viewer<'a>,
    read: bool,
    flood: RateLimiter,
}

/// One line of output.
struct ResourceEvent<'a> {
    kind: &'static str,
    uri: Option<&'a str>,
    /// The change was inferred by the client, not announced by the server.
    inferred: bool,
}

impl ResourceWatch<'_> {
    async fn run(mut self, client: &Client, uris: &[String]) -> Outcome {
        let failed = |error: bowline::Error| Failure::call(&error, self.server, self.command_line);
        // Subscribed to events first: an update may arrive before the response to the subscription.
        let mut events = client.events();
        // Changes of the lists are found by comparison, so both are fetched before.
        client.list_resources().await.map_err(failed)?;
        client.list_resource_templates().await.map_err(failed)?;
        let mut subscribed: Vec<Subscription> = Vec::new();
        for uri in uris {
            subscribed.push(client.subscribe(uri).await.map_err(failed)?);
        }
        client.track_lists();
        let many = units::count(uris.len(), "resource");
        self.printer.note(&format!("watching {many} of `{}` and its list; Ctrl-C ends it", self.server.name));
        loop {
            let mut batch = vec![match events.next().await {
                Some(Event::Missed(count)) => {
                    self.handle_missed_events(client, count, uris).await?;
                    continue;
                }
                Some(event) => event,
                None => return Ok(Exit::Ok),
            }];
            // Drains pending events, so that several updates of one resource lead to one read.
            while batch.len() < MAX_BATCH {
                match events.try_next() {
                    Some(Event::Missed(count)) => self.handle_missed_events(client, count, uris).await?,
                    Some(event) => batch.push(event),
                    None => break,
                }
            }
            self.print_batch(client, &batch, uris).await?;
        }
    }

    /// Reports every resource as updated: the missed events may have been about any of them.
    async fn handle_missed_events(&mut self, client: &Client, count: u64, uris: &[String]) -> Outcome<()> {
        crate::print::log_line::note_missed(self.printer, count);
        for uri in uris {
            let news = ResourceEvent { kind: UPDATED, uri: Some(uri), inferred: true };
            self.print_resource_event(client, news).await?;
        }
        Ok(())
    }

    async fn print_batch(&mut self, client: &Client, batch: &[Event], uris: &[String]) -> Outcome<()> {
        let mut updated: BTreeSet<String> = BTreeSet::new();
        for event in batch {
            match event {
                Event::Connection(life) => {
                    note_connection_event(
                        self.printer,
                        &self.server.name,
                        life.kind,
                        life.outage.map(units::time),
                    );
                }
                Event::Notification(said) => match said.topic() {
                    Topic::ResourceUpdated { uri }
                        if uris.iter().any(|watched| uri.starts_with(watched))
                            && updated.insert(uri.clone()) =>
                    {
                        let news = ResourceEvent { kind: UPDATED, uri: Some(&uri), inferred: said.inferred };
                        self.print_resource_event(client, news).await?;
                    }
                    Topic::ResourcesChanged => {
                        let news = ResourceEvent { kind: "list_changed", uri: None, inferred: said.inferred };
                        self.print_resource_event(client, news).await?;
                    }
                    _ => {}
                },
                Event::ListChanged(change)
                    if matches!(change.list, ListKind::Resources | ListKind::Templates) =>
                {
                    let (added, removed, changed) = (&change.added, &change.removed, &change.changed);
                    for (kind, uris) in [("added", added), ("removed", removed), ("changed", changed)] {
                        for uri in uris {
                            let news = ResourceEvent { kind, uri: Some(uri), inferred: true };
                            self.print_resource_event(client, news).await?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn print_resource_event(&mut self, client: &Client, news: ResourceEvent<'_>) -> Outcome<()> {
        match self.flood.admit(Instant::now()) {
            Admission::Print { left_out: 0 } => {}
            Admission::Print { left_out } => {
                self.printer.note(&format!("{left_out} changes are left out, because they came too fast"));
            }
            Admission::Omit => return Ok(()),
        }
        let contents = match news.uri.filter(|_| self.read && news.kind == UPDATED) {
            Some(uri) => match client.read_resource(uri).await {
                Ok(read) => Some(read),
                // The resource may be gone for the moment; the next update reads it again.
                Err(error) => {
                    self.printer.note(&format!("`{uri}` could not be read: {error}"));
                    None
                }
            },
            None => None,
        };
        if self.printer.is_json() {
            let contents = contents.and_then(|read| read.json.member("contents")?.decode::<Value>().ok());
            let mut object = json!({
                "time": clock::utc(SystemTime::now()),
                "server": self.server.name,
                "event": news.kind,
                "uri": news.uri,
                "inferred": news.inferred,
            });
            if self.read && news.kind == UPDATED {
                object["contents"] = contents.unwrap_or_default();
            }
            return Ok(self.printer.write_json_line(&object.to_string())?);
        }
        self.printer.write_line(&self.format_event(&news))?;
        for part in contents.iter().flat_map(|read| &read.contents) {
            self.viewer.show_contents(part)?;
        }
        Ok(())
    }

    fn format_event(&self, news: &ResourceEvent<'_>) -> String {
        let (now, uri) = (SystemTime::now(), escape::line(news.uri.unwrap_or_default()));
        if !self.printer.on_terminal() {
            return format!("{}\t{}\t{uri}", clock::utc(now), news.kind).trim_end().to_owned();
        }
        let style = if news.kind == UPDATED { HINT } else { FAINT };
        let [time, what] = [(FAINT, clock::local(now)), (style, format!("{:EVENT_WIDTH$}", news.kind))]
            .map(|(style, text)| self.printer.paint(style, &text));
        format!("{time}  {what}  {uri}").trim_end().to_owned()
    }
}

const UPDATED: &str = "updated";
/// Width of the longest event name.
const EVENT_WIDTH: usize = 12;
/// How many events are handled together.
const MAX_BATCH: usize = 256;
