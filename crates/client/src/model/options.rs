//! Owns how a host wants its model's context.

/// Whose API the model is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// OpenAI Chat Completions, and everything that is compatible with it.
    OpenAi,
    /// OpenAI Responses: the same, one level flatter.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini, and Gemini on Vertex.
    Gemini,
}

/// What goes in front of a tool's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// Nothing where there is one server, the configured name in a registry of servers (TL-09).
    Auto,
    /// Nothing. Names that clash are told apart by a mark.
    None,
    /// The configured name of its server.
    Server,
    /// This.
    Text(String),
}

/// Whom a result is for (RS-06).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The model: content that is meant for the person alone is left out.
    #[default]
    Assistant,
    /// Everybody: the hints are ignored.
    Everyone,
}

/// How a model's context is made. Start from [`ModelOptions::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelOptions {
    /// Whose API it is for.
    pub dialect: Dialect,
    /// Characters of one server's instructions (default 2048; 0 for none).
    pub max_instructions: usize,
    /// Characters of a description. Default 4096; for OpenAI 1024, which is all that some of its models and
    /// many compatible services take, and they refuse the whole request otherwise.
    pub max_description: usize,
    /// Bytes of one definition (default 64 KiB). A tool that needs more is left out.
    pub max_definition: usize,
    /// How many tools (default what the provider takes: 128 for OpenAI, 512 for Gemini; 1000 elsewhere).
    pub max_tools: usize,
    /// Characters of a tool's result (default 100,000).
    pub max_result: usize,
    /// Bytes of one picture, in Base64 (default 5 MiB).
    pub max_media: usize,
    /// Bytes of all pictures of one result, in Base64 (default 10 MiB).
    pub max_media_total: usize,
    /// How many pictures of one result (default 10). They stay in the conversation, whose requests have limits.
    pub max_pictures: usize,
    /// What goes in front of a tool's name (default [`Prefix::Auto`]).
    pub prefix: Prefix,
    /// Whom results are for (default the model).
    pub audience: Audience,
    /// Whether tools are put into OpenAI's strict mode where they can be (default no).
    pub strict: bool,
}

impl ModelOptions {
    /// The defaults for a provider.
    pub fn new(dialect: Dialect) -> Self {
        let open_ai = matches!(dialect, Dialect::OpenAi | Dialect::OpenAiResponses);
        Self {
            dialect,
            max_instructions: 2048,
            max_description: if open_ai { 1024 } else { 4096 },
            max_definition: 64 << 10,
            max_tools: match dialect {
                Dialect::OpenAi | Dialect::OpenAiResponses => 128,
                Dialect::Gemini => 512,
                Dialect::Anthropic => 1000,
            },
            max_result: 100_000,
            max_media: 5 << 20,
            max_media_total: 10 << 20,
            max_pictures: 10,
            prefix: Prefix::Auto,
            audience: Audience::default(),
            strict: false,
        }
    }

    /// Other limits for the server's texts, in characters.
    #[must_use]
    pub fn texts(mut self, instructions: usize, description: usize) -> Self {
        self.max_instructions = instructions;
        self.max_description = description;
        self
    }

    /// What goes in front of a tool's name.
    #[must_use]
    pub fn prefix(mut self, prefix: Prefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// Whom results are for.
    #[must_use]
    pub fn audience(mut self, audience: Audience) -> Self {
        self.audience = audience;
        self
    }

    /// Puts tools into OpenAI's strict mode where they can be.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}
