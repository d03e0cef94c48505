//! Unix sockets that only their owner can connect to.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Listens on a socket that only its owner can connect to. A socket that a killed process left
/// behind is replaced; one that somebody listens on is not.
pub(crate) fn bind_private(path: &Path) -> io::Result<tokio::net::UnixListener> {
    if path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    // It gets its name when its permissions are set: until then it is in a folder that nobody else
    // can enter.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let drafts = tempfile::Builder::new().prefix(".bowline-").tempdir_in(folder)?;
    let draft = drafts.path().join("s");
    let socket = UnixListener::bind(&draft)?;
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))?;
    // Unlike a rename, this fails if the name is taken.
    std::fs::hard_link(&draft, path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::from(io::ErrorKind::AddrInUse),
        _ => error,
    })?;
    socket.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(socket)
}

/// Whether the other end of a connection is a process of the same user. The permissions of a folder or a socket may have
/// been changed since they were set.
pub(crate) fn is_same_user(stream: &tokio::net::UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

/// The file of a Unix socket, removed when this is dropped, unless it is another one by then.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: file_identity(path) }
    }
}

fn file_identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && file_identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The longest path of a socket that every system accepts, without the terminating NUL.
pub(crate) const MAX_SOCKET_PATH: usize = 103;
