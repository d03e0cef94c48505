//! The method names, `_meta` keys, extension ids and error codes of every revision, as constants.

/// The names of requests and notifications.
pub mod method {
    macro_rules! methods {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
            $($(#[$doc])* pub const $name: &str = $text;)*

            /// Whether a revision or an extension that is known here defines this method.
            pub(crate) fn is_defined(method: &str) -> bool {
                matches!(method, $($name)|*)
            }
        };
    }
    methods! {
        /// Begins the legacy handshake.
        INITIALIZE = "initialize";
        /// Ends the legacy handshake.
        INITIALIZED = "notifications/initialized";
        /// Discovers a modern server.
        DISCOVER = "server/discover";
        /// Checks a legacy peer, in either direction.
        PING = "ping";
        /// Lists tools, a page at a time.
        TOOLS_LIST = "tools/list";
        /// Calls a tool.
        TOOLS_CALL = "tools/call";
        /// Lists resources, a page at a time.
        RESOURCES_LIST = "resources/list";
        /// Lists resource templates, a page at a time.
        TEMPLATES_LIST = "resources/templates/list";
        /// Reads a resource.
        RESOURCES_READ = "resources/read";
        /// Legacy: subscribes to updates of one resource.
        RESOURCES_SUBSCRIBE = "resources/subscribe";
        /// Legacy: ends such a subscription.
        RESOURCES_UNSUBSCRIBE = "resources/unsubscribe";
        /// Lists prompts, a page at a time.
        PROMPTS_LIST = "prompts/list";
        /// Expands a prompt.
        PROMPTS_GET = "prompts/get";
        /// Completes an argument.
        COMPLETE = "completion/complete";
        /// Legacy: sets the log level.
        SET_LEVEL = "logging/setLevel";
        /// Modern: subscribes to changes.
        LISTEN = "subscriptions/listen";
        /// Gets the state of a task.
        TASKS_GET = "tasks/get";
        /// 2025-11-25: gets the result of a task.
        TASKS_RESULT = "tasks/result";
        /// 2025-11-25: lists tasks.
        TASKS_LIST = "tasks/list";
        /// Cancels a task.
        TASKS_CANCEL = "tasks/cancel";
        /// Tasks extension: sends a task the inputs that it requested.
        TASKS_UPDATE = "tasks/update";
        /// Skills extension: lists skills.
        SKILLS_LIST = "skills/list";
        /// Skills extension: gets one skill.
        SKILLS_GET = "skills/get";
        /// Server request: lists the client's roots.
        ROOTS_LIST = "roots/list";
        /// Server request: samples from a model.
        SAMPLING = "sampling/createMessage";
        /// Server request: elicits input from a person.
        ELICIT = "elicitation/create";
        /// Cancels a request.
        CANCELLED = "notifications/cancelled";
        /// Reports progress of a request.
        PROGRESS = "notifications/progress";
        /// Carries a log message.
        LOG = "notifications/message";
        /// Says that the list of tools changed.
        TOOLS_CHANGED = "notifications/tools/list_changed";
        /// Says that the list of prompts changed.
        PROMPTS_CHANGED = "notifications/prompts/list_changed";
        /// Says that the list of resources changed.
        RESOURCES_CHANGED = "notifications/resources/list_changed";
        /// Says that one resource changed.
        RESOURCE_UPDATED = "notifications/resources/updated";
        /// Says that the client's roots changed.
        ROOTS_CHANGED = "notifications/roots/list_changed";
        /// 2025-11-25: says that a URL elicitation is complete.
        ELICIT_COMPLETE = "notifications/elicitation/complete";
        /// Modern: the first message of a subscription.
        LISTEN_ACKNOWLEDGED = "notifications/subscriptions/acknowledged";
        /// 2025-11-25: says that the status of a task changed.
        TASK_STATUS = "notifications/tasks/status";
        /// Tasks extension: says that the state of a task changed.
        TASK = "notifications/tasks";
    }
}

/// Keys of `_meta` that the protocol defines.
pub mod meta {
    /// Modern: the revision of this request.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Modern: the client's capabilities for this request.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Modern: name and version of the client.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// Modern: name and version of the server.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Modern: the minimum log level for this request.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Modern: the subscription that a message belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// 2025-11-25: the task that a message belongs to.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// 2025-11-25: text for the model while a task runs.
    pub const MODEL_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
    /// The token that ties progress notifications to a request.
    pub const PROGRESS_TOKEN: &str = "progressToken";
}

/// Ids of extensions.
pub mod extension {
    /// The tasks extension of 2026-07-28.
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
    /// 2025-11-25: a person has to visit URLs first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern: headers and body disagree.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the request requires a client capability that was not declared.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern: the server does not speak this revision.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// The user rejected a sampling request.
    pub const USER_REJECTED: i64 = -1;

    /// Whether only a modern server would send this code.
    // DE-06
    pub const fn is_modern(code: i64) -> bool {
        matches!(code, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_VERSION)
    }
}
