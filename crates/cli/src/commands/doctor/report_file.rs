//! Writes the report: a file without secrets, to attach to a bug.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::SystemTime;

use bowline::Server;
use bowline::config::Transport;
use bowline_transport::Redactor;

use super::{Examination, installation, render};
use crate::commands::entries::is_word;
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::print::{clock, json};
use crate::settings::Settings;

/// Fails if the report could not be written there, before any check is made.
pub(super) fn check_path(path: &Path) -> Outcome<()> {
    if path.symlink_metadata().is_ok() {
        let message = format!("{} exists already, and is not overwritten", path.display());
        return Err(Failure::usage_hint(message, "name another file: --report=FILE"));
    }
    Ok(())
}

/// Writes the report for its owner only. An existing file is not overwritten.
pub(super) fn write(path: &Path, text: &str) -> Outcome<()> {
    let written = create_private(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::file(path, &error.to_string()))
}

fn create_private(path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Formats the report. The secrets of `servers` are removed from it, and the user's home folder.
pub(super) fn format<'a>(
    examination: &Examination,
    servers: impl IntoIterator<Item = &'a Server>,
    settings: &Settings,
) -> String {
    let mut out = String::new();
    let text = render::plain_text(examination, REPORT_WIDTH);
    let data = json::pretty(&render::to_json(examination).to_string());
    let made = clock::utc(SystemTime::now());
    write!(
        out,
        "# bowline doctor\n\n{}, {made}\n\n```text\n{}```\n\n```json\n{}\n```\n",
        installation::version(),
        text.replace("```", "` ` `"),
        data.trim_end().replace("```", "` ` `"),
    )
    .expect("writing to a string");
    let shown = Redactor::new(secrets(servers)).redact_text(&out).into_owned();
    match env::home_folder(&*settings.env) {
        Some(home) if home.components().count() > 1 => shown.replace(&home.display().to_string(), "~"),
        _ => shown,
    }
}

const REPORT_WIDTH: usize = 100;

/// Returns everything in the configuration of these servers that may be a secret: values of headers
/// and variables, queries, parts of paths that are no words, arguments, and client secrets. Words
/// among them are removed as well, which does no harm.
fn secrets<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Vec<String> {
    let mut all = Vec::new();
    for server in servers {
        match &server.transport {
            Transport::Stdio(program) => {
                let is_path = |value: &str| value.starts_with('/') || value.starts_with("~/");
                all.extend(
                    program.env.values().map(|value| value.expose().to_owned()).filter(|it| !is_path(it)),
                );
                all.extend(program.args.iter().filter(|arg| !is_path(arg)).cloned());
            }
            Transport::Http(http) | Transport::Sse(http) => {
                for (_, value) in &http.headers {
                    all.push(value.expose().to_owned());
                    all.push(Redactor::secret_in_header(value.expose()).to_owned());
                }
                all.extend(http.url.query_pairs().map(|(_, value)| value.into_owned()));
                let segments = http.url.path_segments().into_iter().flatten();
                all.extend(segments.filter(|segment| !is_word(segment)).map(str::to_owned));
                let secret = http.auth.client.as_ref().and_then(|client| client.secret.as_ref());
                all.extend(secret.map(|secret| secret.expose().to_owned()));
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_of_an_entry_is_taken_for_a_secret() {
        let http = Server::http("docs", "https://docs.example/path-secret-0123/mcp?key=query-secret")
            .build()
            .unwrap();
        let http = http.with_header("authorization", "Bearer header-secret").unwrap();
        let stdio =
            Server::stdio("files", "server").args(["--key=argument-secret", "/home/a"]).build().unwrap();
        let stdio = stdio.with_env("TOKEN", "variable-secret").unwrap();
        let redactor = Redactor::new(secrets([&http, &stdio]));
        let text =
            "path-secret-0123 query-secret header-secret --key=argument-secret variable-secret /home/a";
        let shown = "[redacted] [redacted] [redacted] [redacted] [redacted] /home/a";
        assert_eq!(redactor.redact_text(text), shown);
    }
}
