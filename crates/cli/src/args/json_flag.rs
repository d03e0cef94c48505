//! Resolves the one ambiguity of the grammar: `--json` asks for machine output everywhere, and on
//! `call` it may also carry the arguments. Tool arguments are always an object, so an opening brace
//! decides.

use std::ffi::{OsStr, OsString};

/// Rewrites `--json '{…}'` and `--json='{…}'` of `call` as `--args`, and leaves everything else
/// alone.
pub(crate) fn rewrite_json_flag(argv: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut argv: Vec<OsString> = argv.into_iter().collect();
    let end = argv.iter().position(|arg| arg == "--").unwrap_or(argv.len());
    let Some(verb) = argv[..end].iter().position(|arg| arg == "call") else { return argv };
    for at in verb + 1..end {
        if argv[at] == "--json" && at + 1 < end && is_object(&argv[at + 1]) {
            argv[at] = "--args".into();
        } else if let Some(text) = argv[at].to_str().and_then(|arg| arg.strip_prefix("--json="))
            && is_object(OsStr::new(text))
        {
            argv[at] = format!("--args={text}").into();
        }
    }
    argv
}

fn is_object(arg: &OsStr) -> bool {
    arg.to_str().is_some_and(|text| text.trim_start().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(typed: &str) -> String {
        let argv = rewrite_json_flag(typed.split(' ').map(OsString::from));
        argv.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn an_object_after_json_is_the_arguments() {
        for (typed, meant) in [
            ("bowline call s t --json {\"a\":1}", "bowline call s t --args {\"a\":1}"),
            ("bowline call --json={} s t", "bowline call --args={} s t"),
            ("bowline call --json {} s t --json", "bowline call --args {} s t --json"),
            ("bowline --json call s t --json {}", "bowline --json call s t --args {}"),
        ] {
            assert_eq!(spelled(typed), meant);
        }
    }

    #[test]
    fn everything_else_stays() {
        for typed in [
            "bowline call --json s t a=1",
            "bowline call s t --json",
            "bowline call t --json -- srv --json {}",
            "bowline tools --json {}",
            "bowline call s t --args {} --json",
        ] {
            assert_eq!(spelled(typed), typed);
        }
    }
}
