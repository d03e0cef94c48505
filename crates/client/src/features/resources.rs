//! Resources and templates: list and read (group RS).

use bowline_proto::wire::method;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{ReadResourceResult, Resource, ResourceTemplate};

use super::Feature;
use crate::client::Client;
use crate::connection::{CallMeter, CallOptions, CallRequest};
use crate::error::Result;

impl Client {
    /// Lists all resources of the server, over all pages; empty if it offers none. Dropping the
    /// future cancels it.
    pub async fn list_resources(&self) -> Result<Vec<Resource>> {
        self.fetch_offered(Feature::Resources, method::RESOURCES_LIST).await
    }

    /// Lists all resource templates of the server, over all pages. Dropping the future cancels it.
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        self.fetch_offered(Feature::Resources, method::TEMPLATES_LIST).await
    }

    /// Reads a resource by its exact URI. The result is cached as long as a modern server permits,
    /// or until it announces a change. Dropping the future cancels it on the server.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult> {
        let method = method::RESOURCES_READ;
        let live = self.live_link(method).await?;
        Feature::Resources.require(self.connection(), &live.peer, method)?;
        let (options, meter) = (&CallOptions::new(), &CallMeter::start());
        let params = Edit::new().set_str("uri", uri).apply(None).expect("a string is JSON");
        let ask = CallRequest { method, params: Some(&params), options, meter };
        let result = self.connection().request_cached(&live, ask).await?;
        self.connection().server.decode_result(method, &result, ReadResourceResult::decode(&result))
    }
}
