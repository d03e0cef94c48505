//! Owns that a person hears of what is declined before anybody could be asked: a page that is none (EL-09).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline::host::Host;
use bowline::host::page::{Look, Unfit};
use bowline::wire::{Json, method};
use bowline::{Answer, Handler, Onward, ServerRequest};
use tokio::sync::watch;

use super::elicit::From;
use super::look::bounded;
use crate::print::Printer;

/// A host that says what it does not show.
pub(crate) struct Told {
    host: Host,
    printer: Printer,
}

impl Told {
    pub(super) fn new(host: Host, printer: Printer) -> Self {
        Self { host, printer }
    }

    fn look(&self, request: &ServerRequest) {
        let Some((url, unfit)) = unfit(&request.method, &request.params) else { return };
        let from = From { server: &request.server, during: request.during.as_deref() };
        let url = bounded(&url, LONGEST_URL);
        let mut members = from.json(&url);
        members["why"] = unfit.to_string().into();
        let text = format!("{from} wanted you to open {url}\nit was declined: {unfit}");
        self.printer.event(&text, "declined", &members);
    }
}

/// Of an address that is not opened, the beginning says why.
const LONGEST_URL: usize = 200;

/// The address of a page that nobody can be asked about, and why not.
fn unfit(method: &str, params: &Json) -> Option<(String, Unfit)> {
    let text = |name| params.member(name).and_then(|member| member.decode::<String>().ok());
    let url = text("url").filter(|_| method == method::ELICIT && text("mode").as_deref() == Some("url"))?;
    Look::at(&url).err().map(|unfit| (url, unfit))
}

impl Handler for Told {
    fn capabilities(&self) -> Json {
        self.host.capabilities()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        self.look(&request);
        self.host.handle(request)
    }

    fn roots_changed(&self) -> Option<watch::Receiver<u64>> {
        self.host.roots_changed()
    }

    fn roots_request_wait(&self) -> Duration {
        self.host.roots_request_wait()
    }

    fn page_completed(&self, server: &str, elicitation_id: &str) {
        self.host.page_completed(server, elicitation_id);
    }

    fn await_page(
        &self,
        server: Arc<str>,
        elicitation_ids: Vec<Box<str>>,
    ) -> Pin<Box<dyn Future<Output = Onward> + Send + '_>> {
        self.host.await_page(server, elicitation_ids)
    }
}
