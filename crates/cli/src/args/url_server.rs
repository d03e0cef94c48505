//! Arguments about a server with a URL: how it is reached, and how a login to it is made.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::suggested_command::absolute;

/// How a server with a URL is reached.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection options")]
pub(crate) struct UrlArgs {
    /// Which transport to use for a server with a URL
    #[arg(long, value_name = "WHICH")]
    pub(crate) transport: Option<TransportChoice>,
    /// Trust the certificate authorities in this PEM file as well, for a server with a URL
    #[arg(long, value_name = "PATH")]
    pub(crate) ca_file: Option<PathBuf>,
}

impl UrlArgs {
    /// Returns these options as words of a suggested command.
    pub(crate) fn to_words(&self) -> Vec<String> {
        let Self { transport, ca_file } = self;
        let transport = transport.and_then(|choice| choice.to_possible_value());
        let mut words = Vec::new();
        if let Some(choice) = transport {
            words.extend(["--transport".to_owned(), choice.get_name().to_owned()]);
        }
        if let Some(path) = ca_file {
            words.extend(["--ca-file".to_owned(), absolute(path).display().to_string()]);
        }
        words
    }
}

/// Which transport to use for a server with a URL. The hidden names are those of `mcp-remote`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportChoice {
    /// Streamable HTTP, or HTTP+SSE if the server refuses that
    // With both transports at one URL, Streamable HTTP recovers better.
    #[value(aliases = ["http-first", "sse-first"])]
    Auto,
    /// Streamable HTTP only
    #[value(aliases = ["http-only", "streamable-http"])]
    Http,
    /// HTTP+SSE only
    #[value(alias = "sse-only")]
    Sse,
}

/// How a login is made to a server that is not configured. The names are those of `mcp-remote`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "OAuth options")]
pub(crate) struct OauthArgs {
    /// Use this registered OAuth client: JSON with `client_id` and `client_secret`, or @FILE
    ///
    /// `${NAME}` in it stands for that environment variable, so that the secret is not in the list of processes.
    #[arg(long = "static-oauth-client-info", value_name = "JSON|@FILE")]
    pub(crate) client_info: Option<String>,
    /// Take `scope` and `token_endpoint_auth_method` from this client metadata: JSON, or @FILE
    #[arg(long = "static-oauth-client-metadata", value_name = "JSON|@FILE")]
    pub(crate) client_metadata: Option<String>,
    /// Use this URL of a Client ID Metadata Document
    #[arg(long, value_name = "URL")]
    pub(crate) client_metadata_url: Option<String>,
    /// Log in as the client itself, without a person (needs --static-oauth-client-info)
    #[arg(long, requires = "client_info")]
    pub(crate) client_credentials: bool,
    /// Request tokens for this resource (RFC 8707)
    #[arg(long, value_name = "URL", conflicts_with = "disable_resource_parameter")]
    pub(crate) resource: Option<String>,
    /// Request tokens without naming a resource
    #[arg(long)]
    pub(crate) disable_resource_parameter: bool,
    /// Add this parameter to the URL of the login page; can be repeated
    #[arg(long = "authorize-param", value_name = "KEY=VALUE")]
    pub(crate) authorize_params: Vec<String>,
    /// The host of the redirect URI of a registered client [default: localhost]
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// The path of the redirect URI of a registered client [default: /oauth/callback]
    #[arg(long, value_name = "PATH")]
    pub(crate) callback_path: Option<String>,
}

impl OauthArgs {
    /// Returns these options and the port as they are typed after another verb. A secret is replaced by `…`.
    pub(crate) fn to_words(&self, port: Option<u16>) -> Vec<String> {
        let Self {
            client_info,
            client_metadata,
            client_metadata_url,
            client_credentials,
            resource,
            disable_resource_parameter,
            authorize_params,
            host,
            callback_path,
        } = self;
        let shown_info = client_info.as_deref().map(|info| if has_secret(info) { "…" } else { info });
        let mut words: Vec<String> = port.iter().map(ToString::to_string).collect();
        let options = [
            ("--static-oauth-client-info", shown_info),
            ("--static-oauth-client-metadata", client_metadata.as_deref()),
            ("--client-metadata-url", client_metadata_url.as_deref()),
            ("--resource", resource.as_deref()),
            ("--host", host.as_deref()),
            ("--callback-path", callback_path.as_deref()),
        ];
        let params = authorize_params.iter().map(|param| ("--authorize-param", Some(param.as_str())));
        for (option, value) in options.into_iter().chain(params) {
            words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value.to_owned()]));
        }
        let flags = [
            ("--client-credentials", client_credentials),
            ("--disable-resource-parameter", disable_resource_parameter),
        ];
        words.extend(flags.iter().filter(|(_, is_given)| **is_given).map(|(flag, _)| (*flag).to_owned()));
        words
    }
}

/// Whether client information has a secret in it, and not only the name of a variable or a file.
fn has_secret(info: &str) -> bool {
    if info.starts_with('@') {
        return false;
    }
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(info);
    let Ok(parsed) = parsed else { return true };
    let is_named = |secret: &serde_json::Value| {
        secret.as_str().is_some_and(|secret| secret.starts_with("${") && secret.ends_with('}'))
    };
    parsed.get("client_secret").is_some_and(|secret| !is_named(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suggested_command::{quote_words, shell_quote};

    #[test]
    fn a_suggested_command_has_no_secret() {
        let line = |info: &str| {
            let args = OauthArgs { client_info: Some(info.to_owned()), ..OauthArgs::default() };
            quote_words("bowline login https://h/mcp".to_owned(), &args.to_words(Some(9696)))
        };
        let expected = |info: &str| {
            format!("bowline login https://h/mcp 9696 --static-oauth-client-info {}", shell_quote(info))
        };
        for shown in
            ["@/etc/client.json", r#"{"client_id":"a"}"#, r#"{"client_id":"a","client_secret":"${S}"}"#]
        {
            assert_eq!(line(shown), expected(shown));
        }
        for hidden in [r#"{"client_id":"a","client_secret":"k3y"}"#, r#"{"client_secret":7}"#, "{k3y"] {
            assert_eq!(line(hidden), expected("…"), "{hidden}");
        }
    }

    #[test]
    fn every_option_is_repeated() {
        let args = OauthArgs {
            client_info: Some("@a".to_owned()),
            client_metadata: Some("@b".to_owned()),
            client_metadata_url: Some("https://c/d".to_owned()),
            client_credentials: true,
            resource: Some("https://e".to_owned()),
            disable_resource_parameter: true,
            authorize_params: vec!["f=g".to_owned(), "h=i".to_owned()],
            host: Some("127.0.0.1".to_owned()),
            callback_path: Some("/j".to_owned()),
        };
        assert_eq!(
            args.to_words(None).join(" "),
            "--static-oauth-client-info @a --static-oauth-client-metadata @b --client-metadata-url https://c/d \
             --resource https://e --host 127.0.0.1 --callback-path /j --authorize-param f=g --authorize-param h=i \
             --client-credentials --disable-resource-parameter"
        );
        assert!(OauthArgs::default().to_words(None).is_empty());
    }
}
