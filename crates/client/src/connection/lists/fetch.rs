//! Fetches complete lists over all pages (group PA).

use std::collections::HashSet;
use std::sync::Arc;

use bowline_proto::fault::{Cause, Fault, Limit, Misbehavior};
use bowline_proto::revision::Era;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{DroppedElement, ListItem, Page, Tool};
use bowline_proto::wire::{Json, code, method};

use super::catalog::ListDigest;
use crate::clock;
use crate::connection::{CallMeter, CallOptions, CallRequest, Connection, LiveLink};
use crate::error::Result;

/// A complete list, and the elements that were dropped from it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List<T> {
    /// The elements, in the server's order.
    pub items: Vec<T>,
    /// Elements that are not valid, with their index on the page and the reason.
    pub dropped: Vec<DroppedElement>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Vec::new(), dropped: Vec::new() }
    }
}

impl Connection {
    /// Lists all tools on `live`. Their header annotations are recorded for later calls.
    pub(crate) async fn list_tools(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        options: &CallOptions,
    ) -> Result<List<Tool>> {
        if live.peer.capabilities.tools.is_none() {
            return Ok(List::default());
        }
        let mut list: List<Tool> = self.fetch_list(live, method::TOOLS_LIST, options).await?;
        self.lists.record_tools(&list.items);
        self.lists.record_output_schemas(&list.items);
        list.items = self.lists.record_annotations(&self.server.name, live, list.items);
        Ok(list)
    }

    /// Fetches a list and records it, which emits an event if it has changed.
    pub(crate) async fn fetch_list<T: ListItem>(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        method: &'static str,
        options: &CallOptions,
    ) -> Result<List<T>> {
        let list = self.fetch_all::<T>(live, method, options).await?;
        self.lists.record_list(&self.events, method, ListDigest::from_items(&list.items));
        Ok(list)
    }

    /// Fetches all pages of `method`.
    pub(crate) async fn fetch_all<T: ListItem>(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        method: &'static str,
        options: &CallOptions,
    ) -> Result<List<T>> {
        let mut live = Arc::clone(live);
        let mut result = self.fetch_pages(&live, method, options).await;
        for _ in 0..MAX_RESTARTS {
            let Err((error, true)) = &result else { break };
            let refused = error.server_error().is_some_and(|error| error.code == code::INVALID_PARAMS);
            if !refused {
                // PA-01: a cursor belongs to its session, so a new session starts over.
                let next = self.wait_for_link(self.server.link_timeout(options)).await;
                match next {
                    Ok(next) if !next.is_same_link(&live) => live = next,
                    _ => break,
                }
            }
            // PA-03, CA-06: the pages of a list are invalidated together.
            self.lists.invalidate_list(method);
            result = self.fetch_pages(&live, method, options).await;
        }
        result.map_err(|(error, _)| error)
    }

    /// Fetches all pages once. The flag of an error says whether it occurred after the first page.
    async fn fetch_pages<T: ListItem>(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        method: &str,
        options: &CallOptions,
    ) -> Result<List<T>, (crate::Error, bool)> {
        let mut list = List::default();
        let mut params: Option<Json> = None;
        let mut seen = HashSet::new();
        let mut bytes = 0;
        // The total timeout covers the whole list, however many pages it has.
        let (begun, total) = (clock::now(), self.server.limits(options).total);
        for pages in 0..MAX_PAGES {
            let later = params.is_some();
            let left = total.saturating_sub(clock::elapsed(begun));
            if left.is_zero() {
                return Err((self.out_of_time(method, pages), false));
            }
            let pinned = later && live.peer.era() == Era::Legacy;
            let pinned = CallOptions { pinned, total: Some(left), ..options.clone() };
            let meter = &CallMeter::start();
            let ask = CallRequest { method, params: params.as_ref(), options: &pinned, meter };
            let result = match self.request_cached(live, ask).await {
                Ok(result) => result,
                Err(error) if later && is_out_of_time(&error) => {
                    return Err((self.out_of_time(method, pages), false));
                }
                Err(error) => return Err((error, later)),
            };
            let page = self
                .server
                .decode_result(method, &result, Page::<T>::decode(&result))
                .map_err(|error| (error, later))?;
            list.items.extend(page.items);
            for dropped in &page.dropped {
                tracing::warn!(server = %self.server.name, method, reason = %dropped.reason, "an element was left out");
            }
            list.dropped.extend(page.dropped);
            // PA-02: only an absent cursor ends the list; an empty one is valid.
            bytes += result.as_bytes().len();
            let Some(cursor) = page.next_cursor else { return Ok(list) };
            if bytes > MAX_BYTES || list.items.len() > MAX_ITEMS {
                break;
            }
            params = Some(Edit::new().set_str("cursor", &cursor).apply(None).expect("a string is JSON"));
            if !seen.insert(cursor) {
                break;
            }
        }
        let fault = Fault::protocol(Misbehavior::EndlessList)
            .with_note("a cursor came twice, or there was too much of it");
        Err((self.server.fault_error(method, fault), true))
    }

    /// The failure of a list that did not end in its time. A server that sent page after page did
    /// answer, so the error says how many pages came.
    fn out_of_time(&self, method: &str, pages: usize) -> crate::Error {
        let fault = Fault::new(Cause::Timeout(Limit::Total));
        self.server.fault_error(method, fault.with_note(format!("page {pages} of the list was not its last")))
    }
}

/// Reports whether a request ended because the time of its whole list was over.
fn is_out_of_time(error: &crate::Error) -> bool {
    error.fault().is_some_and(|fault| fault.cause == Cause::Timeout(Limit::Total))
}

/// Maximum number of pages, elements and bytes of one list.
const MAX_PAGES: usize = 10_000;
const MAX_ITEMS: usize = 500_000;
const MAX_BYTES: usize = 512 * 1024 * 1024;
/// Maximum number of times that a list is started over.
const MAX_RESTARTS: usize = 2;
