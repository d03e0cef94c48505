//! Decides which of our environment variables a server inherits.
//!
//! A server is third-party software. It gets the variables that programs need to run at all, and
//! those of its configuration; tokens and keys that happen to be in our environment are not passed
//! on.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables that every server inherits if we have them. A trailing `*` matches any ending.
///
/// Proxies and certificates are included, although the URL of a proxy can hold a password: behind a
/// proxy nothing works without them.
pub const INHERITED_VARIABLES: &[&str] = &[
    // User and folders.
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_*",
    // Language and time.
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    // Proxies.
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    // Certificates.
    "CURL_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    // Windows, where names have no case.
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMMONPROGRAMFILES(X86)",
    "COMPUTERNAME",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PUBLIC",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Filters our environment for a server.
pub(super) fn filter_inherited(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    // A value like this is an exported shell function, which a shell in the child would define.
    let is_function = |value: &OsStr| value.as_encoded_bytes().starts_with(b"()");
    ours.into_iter()
        .filter(|(name, value)| is_inherited(name) && !is_function(value))
        .map(|(name, value)| (normalize_name(&name), value))
        .collect()
}

/// The canonical spelling of a name: on Windows `Path` is `PATH`.
pub(super) fn normalize_name(name: &OsStr) -> OsString {
    if cfg!(windows) { name.to_ascii_uppercase() } else { name.to_owned() }
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED_VARIABLES.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|begin| names_match(begin, start)),
        None => names_match(name, pattern),
    })
}

fn names_match(name: &str, listed: &str) -> bool {
    if cfg!(windows) { name.eq_ignore_ascii_case(listed) } else { name == listed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_inherited() {
        let ours = [
            ("HOME", "/home/u"),
            ("LC_ALL", "C"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
            ("GITHUB_TOKEN", "t"),
            ("AWS_SECRET_ACCESS_KEY", "k"),
            ("LC", "?"),
            ("MYHOME", "?"),
            ("SHELL", "() { :; }"),
        ];
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        let kept: Vec<_> = filter_inherited(ours).into_keys().collect();
        assert_eq!(kept, ["HOME", "LC_ALL", "XDG_RUNTIME_DIR"]);
    }
}
