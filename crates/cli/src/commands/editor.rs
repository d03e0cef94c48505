//! [`Editor`]: which command `$VISUAL` or `$EDITOR` means.

use std::path::Path;

use bowline::config::Environment;

use crate::env;
use crate::failure::{Failure, Outcome};
use crate::shell::command_line::split_words;

/// The editor of the person, as a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Editor {
    /// The variable that sets it.
    variable: &'static str,
    program: String,
    args: Vec<String>,
}

impl Editor {
    /// Reads the variables. `None` if neither is set.
    pub(super) fn from_environment(env: &dyn Environment) -> Outcome<Option<Self>> {
        let set = |variable| Some((variable, env::non_empty_var(env, variable)?));
        let Some((variable, value)) = set(env::VISUAL).or_else(|| set(env::EDITOR)) else { return Ok(None) };
        Self::parse(variable, &value).map(Some)
    }

    /// The value is the path of a program, which may have spaces in it, or else a command with arguments and quotes
    /// as for a shell.
    fn parse(variable: &'static str, value: &str) -> Outcome<Self> {
        if value.contains(std::path::is_separator) && Path::new(value).is_file() {
            return Ok(Self { variable, program: value.to_owned(), args: Vec::new() });
        }
        // On Windows a backslash separates folders, and quotes nothing.
        let line = if cfg!(windows) { value.replace('\\', r"\\") } else { value.to_owned() };
        let split = split_words(line.trim());
        if split.is_quote_open {
            return Err(Failure::usage(format!("a quote in ${variable} is not closed")));
        }
        let mut words = split.words.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| Failure::usage(format!("${variable} names no program")))?;
        Ok(Self { variable, program, args: words.collect() })
    }

    /// Opens a file, and waits until the editor ends.
    ///
    /// Dropping the future leaves the editor running.
    pub(super) async fn open(&self, path: &Path) -> Outcome<()> {
        let Self { variable, program, args } = self;
        match tokio::process::Command::new(program).args(args).arg(path).status().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::usage(format!("`{program}` ended with {status}"))),
            Err(error) => {
                let why = env::describe_io_error(&error);
                let message = format!("`{program}`, the editor of ${variable}, cannot be started: {why}");
                if args.is_empty() {
                    return Err(Failure::usage_hint(message, format!("set ${variable} to another editor")));
                }
                let hint = "a path with spaces has to be in quotes if arguments follow it: \
                            '\"/path with spaces/editor\" --wait'";
                Err(Failure::usage_hint(message, hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Result<(String, Vec<String>), String> {
        match Editor::parse(env::EDITOR, value) {
            Ok(Editor { program, args, .. }) => Ok((program, args)),
            Err(Failure::Report(report)) => Err(report.message),
            Err(_) => unreachable!("nothing else fails"),
        }
    }

    #[test]
    fn command_is_split_as_by_a_shell() {
        for (value, program, args) in [
            ("vi", "vi", &[][..]),
            (" code  --wait ", "code", &["--wait"]),
            (r#""/opt/My Editor/ed" --wait -n"#, "/opt/My Editor/ed", &["--wait", "-n"]),
            ("'/opt/My Editor/ed' '--title=a b'", "/opt/My Editor/ed", &["--title=a b"]),
            ("/opt/My Editor/ed --wait", "/opt/My", &["Editor/ed", "--wait"]),
        ] {
            let (found, words) = parse(value).unwrap();
            assert_eq!(
                (&*found, words),
                (program, args.iter().map(|it| (*it).to_owned()).collect()),
                "{value}"
            );
        }
        #[cfg(unix)]
        assert_eq!(parse(r"/opt/My\ Editor/ed").unwrap().0, "/opt/My Editor/ed");
        assert_eq!(parse("'vi").unwrap_err(), "a quote in $EDITOR is not closed");
        assert_eq!(parse("  ").unwrap_err(), "$EDITOR names no program");
    }

    #[test]
    fn existing_file_is_not_split() {
        let folder = tempfile::Builder::new().prefix("My Editor").tempdir().unwrap();
        let file = folder.path().join("it's --ed");
        std::fs::write(&file, "").unwrap();
        let file = file.display().to_string();
        assert_eq!(parse(&file).unwrap(), (file, Vec::new()));
    }
}
