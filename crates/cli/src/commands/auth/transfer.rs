//! Implements `bowline auth export` and `import`: logins in a file encrypted with a passphrase.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use bowline::auth::{self, Account, Auth, Overwrite};
use bowline::config::Secret;
use bowline_transport::describe_url_text;
use serde_json::json;

use crate::args::{ExportArgs, ImportArgs, PassphraseArgs};
use crate::dialog::{Dialogs, check_passphrase};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::logins::LoginLookup;
use crate::print::{accounts, units, write_stdout_bytes};
use crate::settings::Settings;

pub(super) async fn export(args: ExportArgs, settings: &Settings) -> Outcome {
    let ExportArgs { servers, out, force, passphrase } = args;
    let stdout = out == Path::new("-");
    if stdout && io::stdout().is_terminal() {
        return Err(Failure::usage("logins are not written to a terminal: name a file, or a pipe"));
    }
    if !stdout && !force && out.exists() {
        return Err(file_exists_failure(&out));
    }
    let logins = settings.login_settings();
    let kept = logins.open_store().await?;
    let all = auth::accounts(&kept.store).await.map_err(|error| Failure::login_store(&error))?;
    let wanted = if servers.is_empty() {
        all
    } else {
        select_logins(&servers, &all, &logins.auth_with(&kept), settings)?
    };
    let count = wanted.len();
    if count == 0 {
        return Err(Failure::usage_hint("no logins are stored", "`bowline login SERVER` creates one"));
    }
    let passphrase = read_passphrase(&passphrase, settings, PassphraseUse::Encrypt).await?;
    let sealed = auth::export_accounts(&kept.store, passphrase.expose(), &wanted).await;
    let sealed = sealed.map_err(|error| Failure::login_store(&error))?;
    if stdout {
        write_stdout_bytes(&sealed)?;
    } else {
        write_export(&out, &sealed, force).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => file_exists_failure(&out),
            _ => Failure::file(&out, &error.to_string()),
        })?;
    }
    let file = if stdout { "stdout".to_owned() } else { out.display().to_string() };
    let members = json!({ "logins": count, "file": out });
    settings.printer.write_event(
        &format!(
            "{} written to {file}; from now on use them there or here, not both: a login that is refreshed on two \
             machines may end on both",
            units::count(count, "login"),
        ),
        "exported",
        &members,
    );
    Ok(Exit::Ok)
}

/// Returns the logins of the named servers, without duplicates.
fn select_logins(
    typed: &[String],
    all: &[Account],
    auth: &Auth,
    settings: &Settings,
) -> Outcome<Vec<Account>> {
    let mut wanted: Vec<Account> = Vec::new();
    for typed in typed {
        let LoginLookup { logins, .. } = LoginLookup::find(typed, all, auth, settings);
        if logins.is_empty() {
            return Err(Failure::usage_hint(
                format!("there is no login for `{typed}`"),
                "`bowline auth` lists the stored logins",
            ));
        }
        wanted.extend(logins);
    }
    wanted.sort_by(|a, b| a.id.cmp(&b.id));
    wanted.dedup_by(|a, b| a.id == b.id);
    Ok(wanted)
}

pub(super) async fn import(args: ImportArgs, settings: &Settings) -> Outcome {
    let ImportArgs { file, force, passphrase } = args;
    let overwrite = if force { Overwrite::Anything } else { Overwrite::Older };
    let sealed = read_export(&file).map_err(|error| Failure::file(&file, &error.to_string()))?;
    let kept = settings.login_settings().open_store().await?;
    let passphrase = read_passphrase(&passphrase, settings, PassphraseUse::Decrypt).await?;
    let taken = auth::import_with(&kept.store, &sealed, passphrase.expose(), overwrite)
        .await
        .map_err(|error| Failure::usage(format!("cannot import {}: {error}", file.display())))?;
    let printer = &settings.printer;
    if printer.is_json() {
        let logins: Vec<_> = taken.iter().map(accounts::to_json).collect();
        printer.write_json(&json!({ "logins": logins, "kept": accounts::store_json(&kept) }).to_string())?;
        return Ok(Exit::Ok);
    }
    for account in &taken {
        let url = describe_url_text(&account.url);
        printer.write_text(&format!("imported the login of {} at {url}", account.server))?;
    }
    if taken.is_empty() {
        printer.note("nothing was imported: the stored logins are newer; use --force to replace them");
    } else {
        printer.note(&format!("logins are stored {}", accounts::describe_store(&kept)));
    }
    Ok(Exit::Ok)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PassphraseUse {
    /// A new passphrase, to encrypt an export.
    Encrypt,
    /// An existing passphrase, to decrypt an import.
    Decrypt,
}

/// Reads the passphrase from the first source that has one: the file, the variable, the person.
async fn read_passphrase(args: &PassphraseArgs, settings: &Settings, how: PassphraseUse) -> Outcome<Secret> {
    let PassphraseArgs { passphrase_file } = args;
    let given = match passphrase_file {
        Some(file) => {
            let text = env::read_small_file(file).map_err(|why| Failure::file(file, &why))?;
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        None => env::non_empty_var(&*settings.env, env::PASSPHRASE),
    };
    let Some(given) = given else {
        return Dialogs::open(&settings.printer, &*settings.env)
            .ask_passphrase(how == PassphraseUse::Encrypt)
            .await;
    };
    if how == PassphraseUse::Encrypt {
        check_passphrase(&given)?;
    }
    Ok(Secret::new(given))
}

fn file_exists_failure(path: &Path) -> Failure {
    Failure::usage_hint(format!("{} already exists", path.display()), "use --force to overwrite it")
}

/// Writes the whole file or nothing, readable by the user alone.
fn write_export(path: &Path, bytes: &[u8], force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    if !force {
        let written = options.open(path)?.write_all(bytes);
        return written.inspect_err(|_| drop(fs::remove_file(path)));
    }
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = options.open(&new).and_then(|mut file| file.write_all(bytes));
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Reads an exported file. The size is bounded, since the path may name something endless.
fn read_export(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(MAX_EXPORT_BYTES + 1).read_to_end(&mut bytes)?;
    } else {
        // Checked before opening: opening a pipe would wait for its writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        fs::File::open(path)?.take(MAX_EXPORT_BYTES + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_EXPORT_BYTES {
        return Err(io::Error::other("too large for logins"));
    }
    Ok(bytes)
}

const MAX_EXPORT_BYTES: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over_unless_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logins");
        write_export(&path, b"one", false).unwrap();
        let again = write_export(&path, b"two", false).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            write_export(&path, b"two", true).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        write_export(&path, b"two", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
