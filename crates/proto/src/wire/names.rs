//! Every method name and error code of every revision, as a constant.

/// Requests and notifications by name.
pub mod method {
    macro_rules! methods {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
            $($(#[$doc])* pub const $name: &str = $text;)*
        };
    }
    methods! {
        /// Legacy handshake.
        INITIALIZE = "initialize";
        /// Ends the legacy handshake.
        INITIALIZED = "notifications/initialized";
        /// Modern discovery.
        DISCOVER = "server/discover";
        /// Legacy liveness, both ways.
        PING = "ping";
        /// Tools, a page at a time.
        TOOLS_LIST = "tools/list";
        /// Run a tool.
        TOOLS_CALL = "tools/call";
        /// Resources, a page at a time.
        RESOURCES_LIST = "resources/list";
        /// Resource templates, a page at a time.
        TEMPLATES_LIST = "resources/templates/list";
        /// Read a resource.
        RESOURCES_READ = "resources/read";
        /// Legacy: ask for updates of one resource.
        RESOURCES_SUBSCRIBE = "resources/subscribe";
        /// Legacy: stop asking.
        RESOURCES_UNSUBSCRIBE = "resources/unsubscribe";
        /// Prompts, a page at a time.
        PROMPTS_LIST = "prompts/list";
        /// Expand a prompt.
        PROMPTS_GET = "prompts/get";
        /// Complete an argument.
        COMPLETE = "completion/complete";
        /// Legacy: set the log threshold.
        SET_LEVEL = "logging/setLevel";
        /// Modern: listen for changes.
        LISTEN = "subscriptions/listen";
        /// Task state.
        TASKS_GET = "tasks/get";
        /// 2025-11-25: the outcome of a task.
        TASKS_RESULT = "tasks/result";
        /// 2025-11-25: all tasks.
        TASKS_LIST = "tasks/list";
        /// End a task.
        TASKS_CANCEL = "tasks/cancel";
        /// Extension: give a task the input it asked for.
        TASKS_UPDATE = "tasks/update";
        /// Skills extension: list skills.
        SKILLS_LIST = "skills/list";
        /// Skills extension: one skill.
        SKILLS_GET = "skills/get";
        /// Server to client: roots.
        ROOTS_LIST = "roots/list";
        /// Server to client: ask the model.
        SAMPLING = "sampling/createMessage";
        /// Server to client: ask the person.
        ELICIT = "elicitation/create";
        /// A request is no longer wanted.
        CANCELLED = "notifications/cancelled";
        /// A request is getting on.
        PROGRESS = "notifications/progress";
        /// A log line.
        LOG = "notifications/message";
        /// The tools changed.
        TOOLS_CHANGED = "notifications/tools/list_changed";
        /// The prompts changed.
        PROMPTS_CHANGED = "notifications/prompts/list_changed";
        /// The resources changed.
        RESOURCES_CHANGED = "notifications/resources/list_changed";
        /// One resource changed.
        RESOURCE_UPDATED = "notifications/resources/updated";
        /// Our roots changed.
        ROOTS_CHANGED = "notifications/roots/list_changed";
        /// 2025-11-25: an out-of-band elicitation is done.
        ELICIT_COMPLETE = "notifications/elicitation/complete";
        /// Modern: the first message of a subscription.
        LISTEN_ACKNOWLEDGED = "notifications/subscriptions/acknowledged";
        /// 2025-11-25: a task moved.
        TASK_STATUS = "notifications/tasks/status";
        /// Extension: a task moved.
        TASK = "notifications/tasks";
    }
}

/// Keys of `_meta` that the protocol owns.
pub mod meta {
    /// Modern: the revision of this request.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Modern: what the client can do for this request.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Modern: who is asking.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// Modern: who is answering.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Modern: wanted log threshold.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Modern: which subscription a message belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// 2025-11-25: which task a message belongs to.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// 2025-11-25: what a model may be told while a task goes on.
    pub const MODEL_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
    /// Ties progress notifications to a request.
    pub const PROGRESS_TOKEN: &str = "progressToken";
}

/// Ids of extensions.
pub mod extension {
    /// Tasks of 2026-07-28.
    pub const TASKS: &str = "io.modelcontextprotocol/tasks";
}

/// Error codes with a portable meaning.
pub mod code {
    /// The peer could not parse the message.
    pub const PARSE_ERROR: i64 = -32700;
    /// Not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Unknown method, or a capability that is not offered.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Bad parameters; unknown tool or prompt; bad cursor; modern: resource not found.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Legacy: resource not found.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// 2025-11-25: go through these URLs first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern: headers and body disagree.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the client must be able to do more.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern: the server does not speak this revision.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// The user said no to sampling.
    pub const USER_REJECTED: i64 = -1;

    /// Whether only a modern server would send this code (DE-06).
    pub const fn is_modern(code: i64) -> bool {
        matches!(code, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_VERSION)
    }
}
