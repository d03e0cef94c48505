//! The token that hosts need to use `bowline serve` over TCP.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_store::private;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Reads the token from a file that only its owner can read. A missing file is created with a new
/// token; of two processes that do so at once, both get the same.
pub(crate) fn load_or_create(path: &Path) -> io::Result<String> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                private::create_folder(folder)?;
            }
            private::create_file(path, generate()?.as_bytes())?;
            read(path)
        }
        outcome => outcome,
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // To open anything else may take forever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let file = File::open(path)?;
    refuse_shared(&file)?;
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    let token = text.trim();
    if token.len() < MIN_CHARS || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("a token has at least {MIN_CHARS} visible ASCII characters");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(token.to_owned())
}

/// Refuses a file that others can read: whoever has the token can call every tool.
#[cfg(unix)]
fn refuse_shared(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    match file.metadata()?.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "others can read it; run `chmod 600` on it"))
        }
    }
}

#[cfg(not(unix))]
fn refuse_shared(_file: &File) -> io::Result<()> {
    Ok(())
}

fn generate() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("there is no randomness"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// 256 bits.
const TOKEN_BYTES: usize = 32;
/// A shorter token could be guessed.
const MIN_CHARS: usize = 16;
const MAX_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("token");
        let token = load_or_create(&path).unwrap();
        assert_eq!(token.len(), 43);
        assert_eq!(load_or_create(&path).unwrap(), token);
        let other = load_or_create(&folder.path().join("other")).unwrap();
        assert_ne!(token, other);
    }

    /// To open a pipe that nobody writes to takes forever.
    #[cfg(unix)]
    #[test]
    fn something_else_in_place_of_the_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/null")] {
            assert_eq!(load_or_create(path).unwrap_err().to_string(), "it is not a regular file", "{path:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_token_that_others_can_read_or_guess_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        load_or_create(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(load_or_create(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&path, "short\n").unwrap();
        assert_eq!(load_or_create(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
