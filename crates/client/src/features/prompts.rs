//! Prompts: list and get (group PM).

use std::collections::BTreeMap;

use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{GetPromptResult, Prompt};
use bowline_proto::wire::{Json, method};

use super::Feature;
use crate::client::Client;
use crate::connection::CallOptions;
use crate::error::Result;

impl Client {
    /// Lists all prompts of the server, over all pages; empty if it offers none. Dropping the
    /// future cancels it.
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>> {
        self.fetch_offered(Feature::Prompts, method::PROMPTS_LIST).await
    }

    /// Expands a prompt. Arguments are strings. Dropping the future cancels it on the server.
    // PM-01
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<GetPromptResult> {
        let method = method::PROMPTS_GET;
        let live = self.live_link(method).await?;
        Feature::Prompts.require(self.connection(), &live.peer, method)?;
        let arguments = Json::encode(arguments).expect("a map of strings is JSON");
        let params = Edit::new().set_str("name", name).set("arguments", &arguments).apply(None);
        let params = params.map_err(|error| self.usage_error(method, error.to_string()))?;
        let result = self.connection().request_on(&live, method, Some(&params), &CallOptions::new()).await?;
        self.connection().server.decode_result(method, &result, GetPromptResult::decode(&result))
    }
}
