//! Reads an externally issued token. It is read each time, because it is short-lived.

use std::path::Path;
use std::time::Duration;

use bowline_config::{Secret, TokenSource};
use tokio::io::AsyncReadExt as _;

use crate::error::{AuthError, AuthErrorKind};
use crate::program;

/// How long the command may run.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest token that is read from a file, in bytes.
const MAX_TOKEN_LENGTH: u64 = 64 * 1024;

/// Reads the current token.
pub(super) async fn read_token(supply: &TokenSource) -> Result<Secret, AuthError> {
    let (text, from) = match supply {
        TokenSource::Value(value) => (value.expose().to_owned(), "the configured value"),
        TokenSource::File(path) => (read_file(path).await?, "the content of the token file"),
        TokenSource::Command(program) => {
            let printed = program::run(program, COMMAND_TIMEOUT).await?;
            (String::from_utf8(printed).unwrap_or_default(), "the output of the token command")
        }
        _ => {
            let what = "this program cannot read a token from such a source";
            return Err(AuthError::new(AuthErrorKind::Setup, what));
        }
    };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(AuthError::new(AuthErrorKind::Setup, format!("{from} is not a valid token")));
    }
    Ok(Secret::new(token))
}

async fn read_file(path: &Path) -> Result<String, AuthError> {
    let mut text = String::new();
    let read = async {
        let file = tokio::fs::File::open(path).await?;
        file.take(MAX_TOKEN_LENGTH).read_to_string(&mut text).await
    };
    match read.await {
        Ok(_) => Ok(text),
        // A platform that rotates the token may be about to write it.
        Err(error) => {
            let what = format!("the token in {} could not be read: {error}", path.display());
            Err(AuthError::new(AuthErrorKind::Unavailable, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let supply = TokenSource::File(folder.path().join("token"));
        assert_eq!(read_token(&supply).await.unwrap_err().kind, AuthErrorKind::Unavailable);
        std::fs::write(folder.path().join("token"), "one\n").unwrap();
        assert_eq!(read_token(&supply).await.unwrap().expose(), "one");
        std::fs::write(folder.path().join("token"), "two").unwrap();
        assert_eq!(read_token(&supply).await.unwrap().expose(), "two");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_program_is_run_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = bowline_config::Program::new("sh", ["-c", "echo x >> n; wc -l < n | tr -d ' '"]);
        program.cwd = Some(folder.path().to_owned());
        let supply = TokenSource::Command(program);
        assert_eq!(read_token(&supply).await.unwrap().expose(), "1");
        assert_eq!(read_token(&supply).await.unwrap().expose(), "2");
    }

    #[tokio::test]
    async fn what_is_no_token_is_not_sent() {
        for bad in ["", "  \n", "two words", "a\nb"] {
            let error = read_token(&TokenSource::Value(bad.into())).await.unwrap_err();
            assert_eq!(error.kind, AuthErrorKind::Setup, "{bad:?}");
        }
    }
}
