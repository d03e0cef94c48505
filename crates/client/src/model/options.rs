//! Options for a model's context.

/// The API of the model's provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelApi {
    /// OpenAI Chat Completions, and compatible services.
    OpenAi,
    /// OpenAI Responses, whose tool definitions are one level flatter.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini, and Gemini on Vertex.
    Gemini,
}

/// The prefix of a tool's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prefix {
    /// None for a single server, the configured name in a registry.
    // TL-09
    Auto,
    /// None. Names that clash get a suffix.
    None,
    /// The configured name of its server.
    Server,
    /// This text.
    Text(String),
}

/// Who a result is for.
// RS-06
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience {
    /// The model: content for the person only is left out.
    #[default]
    Assistant,
    /// Everyone: the audience hints are ignored.
    Everyone,
}

/// Options for a model's context. Start from [`ModelOptions::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelOptions {
    /// The API of the provider.
    pub api: ModelApi,
    /// Maximum length of one server's instructions, in characters (default 2048; 0 for none).
    pub max_instructions: usize,
    /// Maximum length of a description, in characters. Default 4096; for OpenAI 1024, because some
    /// of its models and many compatible services refuse the whole request otherwise.
    pub max_description: usize,
    /// Maximum size of one definition, in bytes (default 64 KiB). A larger tool is left out.
    pub max_definition: usize,
    /// Maximum number of tools (default: the provider's limit of 128 for OpenAI and 512 for Gemini;
    /// 1000 elsewhere).
    pub max_tools: usize,
    /// Maximum length of a tool's result, in characters (default 100,000).
    pub max_result: usize,
    /// Maximum size of one picture, in bytes of Base64 (default 5 MiB).
    pub max_media: usize,
    /// Maximum size of all pictures of one result, in bytes of Base64 (default 10 MiB).
    pub max_media_total: usize,
    /// Maximum number of pictures of one result (default 10). They stay in the conversation, whose
    /// requests are limited.
    pub max_pictures: usize,
    /// The prefix of a tool's name (default [`Prefix::Auto`]).
    pub prefix: Prefix,
    /// Who results are for (default the model).
    pub audience: Audience,
    /// Whether tools use OpenAI's strict mode where possible (default no).
    pub strict: bool,
}

impl ModelOptions {
    /// The defaults for a provider.
    pub fn new(api: ModelApi) -> Self {
        let open_ai = matches!(api, ModelApi::OpenAi | ModelApi::OpenAiResponses);
        Self {
            api,
            max_instructions: 2048,
            max_description: if open_ai { 1024 } else { 4096 },
            max_definition: 64 << 10,
            max_tools: match api {
                ModelApi::OpenAi | ModelApi::OpenAiResponses => 128,
                ModelApi::Gemini => 512,
                ModelApi::Anthropic => 1000,
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

    /// Sets the maximum length of instructions and descriptions, in characters.
    #[must_use]
    pub fn texts(mut self, instructions: usize, description: usize) -> Self {
        self.max_instructions = instructions;
        self.max_description = description;
        self
    }

    /// Sets the prefix of tool names.
    #[must_use]
    pub fn prefix(mut self, prefix: Prefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// Sets who results are for.
    #[must_use]
    pub fn audience(mut self, audience: Audience) -> Self {
        self.audience = audience;
        self
    }

    /// Uses OpenAI's strict mode where possible.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}
