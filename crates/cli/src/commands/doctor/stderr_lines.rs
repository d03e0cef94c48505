//! Reads the last lines that a process wrote to stderr: which of them to show, and whether they say that what its
//! command line names is missing.

/// Returns at most `max` lines: those from the first one that looks like an error, or else the last ones.
pub(super) fn select_lines(lines: &[String], max: usize) -> &[String] {
    let tail = lines.len().saturating_sub(max);
    let from = lines.iter().position(|line| is_error(line)).map_or(tail, |first| first.min(tail));
    &lines[from..lines.len().min(from + max)]
}

/// Whether a line begins the report of an error. Indented lines are code, or belong to a line before them.
fn is_error(line: &str) -> bool {
    !line.starts_with([' ', '\t']) && ERROR_WORDS.iter().any(|word| line.contains(word))
}

const ERROR_WORDS: [&str; 5] = ["Error", "error", "Cannot find", "not found", "No module named"];

/// Whether a line says that a file, module or package is missing that is one of the arguments.
pub(super) fn names_missing_argument(lines: &[String], args: &[String]) -> bool {
    let missing = lines.iter().filter(|line| MISSING_WORDS.iter().any(|word| line.contains(word)));
    let named: Vec<&str> = missing.flat_map(|line| line.split(is_gap)).map(name_of).collect();
    let mut wanted = args.iter().filter(|arg| !arg.starts_with('-')).map(|arg| name_of(arg));
    wanted.any(|name| name.len() > 1 && named.contains(&name))
}

const MISSING_WORDS: [&str; 5] =
    ["Cannot find module", "No module named", "can't open file", "not found", "Not Found"];

fn is_gap(c: char) -> bool {
    c.is_whitespace() || "'\"`,:()".contains(c)
}

/// Returns the last part of a path or of the name of a package, without its version.
fn name_of(word: &str) -> &str {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    // In an address of a registry, the slash after a scope is escaped.
    let last = last.rsplit("%2f").next().unwrap_or(last);
    last.split(['@', '=']).next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// What node 22 writes.
    const NODE: &str = "\
node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/home/me/server.js'
    at Function._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at Function._load (node:internal/modules/cjs/loader:1055:27)
    at node:internal/main/run_main_module:36:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v22.14.0";

    #[test]
    fn lines_from_the_first_error_are_shown() {
        let node = lines(NODE);
        let shown = select_lines(&node, 6);
        assert_eq!((shown.len(), &*shown[0]), (6, "Error: Cannot find module '/home/me/server.js'"));
        let python = lines("Traceback:\n  raise KeyError\nKeyError: 'x'");
        assert_eq!(select_lines(&python, 2), &python[1..]);
        assert_eq!(select_lines(&lines("a\nb\nc"), 2), ["b", "c"]);
        assert!(select_lines(&[], 2).is_empty());
    }

    #[test]
    fn only_an_argument_that_is_missing_is_a_mistake_in_the_command() {
        for (text, args, is_named) in [
            (NODE, &["server.js"][..], true),
            (NODE, &["--inspect", "./server.js"], true),
            (NODE, &["other.js"], false),
            ("Error: Cannot find module 'express'", &["server.js"], false),
            ("/usr/bin/python3: No module named my_server", &["-m", "my_server"], true),
            ("ModuleNotFoundError: No module named 'mcp'", &["server.py"], false),
            ("python3: can't open file '/x/server.py': [Errno 2]", &["server.py"], true),
            (
                "npm error 404 Not Found - GET https://r/@scope%2fserver - Not found",
                &["-y", "@scope/server@1.0"],
                true,
            ),
            ("config not found: /x/server.toml", &["server.py"], false),
        ] {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            assert_eq!(names_missing_argument(&lines(text), &args), is_named, "{text} {args:?}");
        }
    }
}
