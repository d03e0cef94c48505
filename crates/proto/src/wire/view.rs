//! Typed views of results and parameters, one for each method.
//!
//! A view borrows nothing and copies little: it keeps slices of the message it was decoded from,
//! and reads rarely used members on demand. Decoding is lenient: a required member that is missing
//! or of the wrong type fails its object, an invalid optional member counts as absent, and an
//! invalid element of a list is left out and reported in `dropped`. Unknown members stay in `json`.

/// Accessors of the title and description of an item, read on demand.
macro_rules! titled {
    ($type:ty) => {
        impl $type {
            /// The title for people, if given.
            pub fn title(&self) -> Option<String> {
                $crate::wire::view::read::text(&self.json, "title")
            }

            /// The server's description of its purpose. Untrusted.
            pub fn description(&self) -> Option<String> {
                $crate::wire::view::read::text(&self.json, "description")
            }
        }
    };
}

/// Accessors of the members that most named items share, read on demand.
macro_rules! described {
    ($type:ty) => {
        titled!($type);

        impl $type {
            // IC-02, IC-03
            /// Its icons. Their sources are untrusted.
            pub fn icons(&self) -> Vec<$crate::wire::view::Icon> {
                $crate::wire::view::Icon::all(&self.json)
            }

            /// Its `_meta`.
            pub fn meta(&self) -> Option<$crate::wire::Json> {
                $crate::wire::view::read::meta(&self.json)
            }
        }
    };
}

/// Makes a view the element of a list, by the member that holds the list and the field that
/// identifies the element. The view is decoded by its `from_object`.
macro_rules! list_item {
    ($Type:ident, $list:literal, $key:ident) => {
        impl $crate::wire::view::ListItem for $Type {
            const LIST: &'static str = $list;

            fn read(object: &Object<'_>) -> Result<Self, ViewError> {
                Self::from_object(object)
            }

            fn json(&self) -> &Json {
                &self.json
            }

            fn key(&self) -> &str {
                &self.$key
            }
        }
    };
}

mod completion;
mod content;
mod elicitation;
mod error;
mod icon;
mod input;
mod lifecycle;
mod list;
mod notifications;
mod prompts;
mod read;
mod resources;
mod result_type;
mod sampling;
mod skills;
mod tasks;
mod tools;

pub use completion::Completion;
pub use content::{Content, ContentAnnotations, EmbeddedResource, MediaContent, Role, TextContent};
pub use elicitation::{ChoiceOption, ElicitResult, Elicitation, Field, FieldKind, Form, UrlElicitation};
pub use error::{DroppedElement, JsonKind, ViewError};
pub use icon::Icon;
pub use input::{InputRequest, InputRequests, InputRequired};
pub use lifecycle::{
    Capabilities, DiscoverResult, FeatureCapability, Implementation, InitializeResult, server_info,
};
pub use list::{CacheHint, CacheScope, ListItem, Page};
pub use notifications::{
    Cancellation, ElicitationCompletion, LogLevel, LogMessage, Progress, ResourceUpdate,
    SubscriptionAcknowledgment, subscription_id,
};
pub use prompts::{GetPromptResult, Prompt, PromptArgument, PromptMessage};
pub use read::JsonString;
pub use resources::{ReadResourceResult, Resource, ResourceBody, ResourceContents, ResourceTemplate};
pub use result_type::{ResultType, result_type};
pub use sampling::{
    IncludeContext, ModelPreferences, SamplingBlock, SamplingMessage, SamplingRequest, SamplingResult,
    ToolChoice, TurnError,
};
pub use skills::{SkillDescriptor, SkillFile, SkillFiles};
pub use tasks::{Task, TaskDialect, TaskStatus};
pub use tools::{CallToolResult, TaskSupport, Tool, ToolAnnotations};

#[cfg(test)]
mod tests;
