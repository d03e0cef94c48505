//! Lists the tools for a call, to learn whether its tool is harmless or to fetch its annotations
//! again, as the client does. The listing is sent once, so its result is only what can be had.

use bowline_proto::client::calls::Limits;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::Attempt;

use crate::caller::{LIMITS, PendingKind};
use crate::world::World;

/// What the tools are listed for, on behalf of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingUse {
    /// To learn whether the tool is harmless.
    Harmless,
    /// To fetch the annotations of the tool again.
    Annotations,
}

impl World {
    /// Lists the tools for a call. Over a replaced link, or of a server without lists, there is no
    /// listing.
    pub(crate) fn list_tools(&mut self, caller: usize, attempt: Attempt, listing: ListingUse) {
        if self.server.list.is_none() || attempt != self.session.attempt() {
            return self.end_listing(caller, listing, false);
        }
        let left = self.callers[caller].retry.deadline().saturating_duration_since(self.now);
        let limits = Limits { idle: LIMITS.idle, total: left };
        self.send_for_call(caller, attempt, limits, PendingKind::Listing(listing));
    }

    pub(crate) fn end_listing(&mut self, caller: usize, listing: ListingUse, is_listed: bool) {
        let call = &mut self.callers[caller];
        let step = match listing {
            _ if self.now >= call.retry.deadline() => call.retry.handle_timeout(self.now),
            ListingUse::Harmless => {
                let harmless = is_listed && call.request.harmless;
                call.oracle.record_known_harmless(harmless);
                call.retry.handle_harmless(self.now, harmless)
            }
            ListingUse::Annotations => call.retry.handle_annotations(self.now),
        };
        self.perform(caller, step);
    }

    /// Handles the reply to a listing of the tools for a call.
    pub(crate) fn handle_listing_reply(
        &mut self,
        caller: usize,
        attempt: Attempt,
        listing: ListingUse,
        reply: &Reply,
    ) {
        let is_listed = matches!(reply, Reply::Result(_));
        if is_listed {
            self.mark_proven(attempt);
            self.known_annotations = self.server.annotations;
        }
        self.end_listing(caller, listing, is_listed);
    }
}
