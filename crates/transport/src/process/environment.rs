//! Which variables of ours a server gets to see.
//!
//! A server is somebody else's program. It gets what programs need to run at all, and what its
//! configuration gives it; tokens and keys that happen to be in our environment stay here.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables every server gets if we have them. A trailing `*` stands for any ending.
///
/// Proxies and certificates are among them, although a proxy's URL can hold a password: behind a proxy
/// nothing works without.
pub const INHERITED: &[&str] = &[
    // Who and where.
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
    // The way out.
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    // Who is trusted there.
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

/// What is left of `ours` for a server.
pub(super) fn inherited(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    // A value like this is a shell function, which a shell in the child would define.
    let is_function = |value: &OsStr| value.as_encoded_bytes().starts_with(b"()");
    ours.into_iter()
        .filter(|(name, value)| is_inherited(name) && !is_function(value))
        .map(|(name, value)| (key(&name), value))
        .collect()
}

/// The one spelling of a name: on Windows `Path` is `PATH`.
pub(super) fn key(name: &OsStr) -> OsString {
    if cfg!(windows) { name.to_ascii_uppercase() } else { name.to_owned() }
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|begin| same(begin, start)),
        None => same(name, pattern),
    })
}

fn same(name: &str, listed: &str) -> bool {
    if cfg!(windows) { name.eq_ignore_ascii_case(listed) } else { name == listed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_here() {
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
        let kept: Vec<_> = inherited(ours).into_keys().collect();
        assert_eq!(kept, ["HOME", "LC_ALL", "XDG_RUNTIME_DIR"]);
    }
}
