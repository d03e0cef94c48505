//! Translates the placeholders of each host into ours, and keeps literal text literal.

use std::path::Path;

use super::findings::Findings;
use crate::host::Host;

/// Translates texts of one file.
pub(super) struct Translator<'a> {
    pub(super) host: Host,
    /// The folder of the file.
    pub(super) folder: &'a Path,
    /// The folder of the project that the entry is for.
    pub(super) project: Option<&'a Path>,
    /// The values that VS Code asks for.
    pub(super) inputs: &'a [Input],
}

/// A value that VS Code asks a person for.
pub(super) struct Input {
    pub(super) id: String,
    pub(super) default: Option<String>,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    /// A placeholder in our form.
    Placeholder(String),
}

/// A form of placeholders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `${VAR}` and `${VAR:-default}`.
    Variable,
    /// `$VAR`.
    BareVariable,
    /// `$env:VAR`.
    PrefixedVariable,
    /// `${env:VAR}`.
    EnvVariable,
    /// `${userHome}` and the other variables of editors.
    Editor,
    /// `{env:VAR}` and `{file:path}`.
    Curly,
}

/// The placeholders that a host fills in.
fn forms_of(host: Host) -> &'static [Form] {
    match host {
        Host::ClaudeCode => &[Form::Variable],
        Host::CopilotCli | Host::Hermes => &[Form::Variable, Form::EnvVariable],
        Host::Mcporter => &[Form::Variable, Form::PrefixedVariable],
        Host::GeminiCli | Host::QwenCode => &[Form::Variable, Form::BareVariable],
        Host::Cursor | Host::VsCode | Host::Windsurf => &[Form::EnvVariable, Form::Editor],
        Host::Opencode => &[Form::Curly],
        Host::ClaudeDesktop | Host::Codex | Host::Goose | Host::Zed => &[],
    }
}

impl Translator<'_> {
    /// Translates a text. What cannot be translated becomes a finding.
    pub(super) fn translate(&self, text: &str, found: &mut Findings) -> String {
        join(self.split(text, found), found)
    }

    /// Splits a text into what is literal and what the host fills in.
    pub(super) fn split(&self, text: &str, found: &mut Findings) -> Vec<Piece> {
        let fills = |form| forms_of(self.host).contains(&form);
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let filled = if let Some(inner) = rest.strip_prefix("${") {
                inner.split_once('}').and_then(|(body, after)| {
                    let pieces = self.fill_braces(body, found)?;
                    Some((pieces, after))
                })
            } else if let Some(inner) = rest.strip_prefix("$env:").filter(|_| fills(Form::PrefixedVariable)) {
                split_name(inner).map(|(name, after)| (vec![variable(name)], after))
            } else if let Some(inner) = rest.strip_prefix('$').filter(|_| fills(Form::BareVariable)) {
                split_name(inner).map(|(name, after)| (vec![variable(name)], after))
            } else if fills(Form::Curly) && rest.starts_with('{') {
                self.fill_curly(rest)
            } else {
                None
            };
            if let Some((filled, after)) = filled {
                pieces.extend(filled);
                rest = after;
                continue;
            }
            push_literal(&mut pieces, &rest[..first.len_utf8()]);
            rest = &rest[first.len_utf8()..];
        }
        pieces
    }

    /// Fills `${body}`; `None` if the host leaves it as it is.
    fn fill_braces(&self, body: &str, found: &mut Findings) -> Option<Vec<Piece>> {
        let fills = |form| forms_of(self.host).contains(&form);
        if let Some(name) = body.strip_prefix("env:").filter(|_| fills(Form::EnvVariable)) {
            return is_variable_name(name).then(|| vec![variable(name)]);
        }
        if fills(Form::Editor)
            && let Some(pieces) = self.fill_editor_variable(body, found)
        {
            return Some(pieces);
        }
        if fills(Form::Variable) {
            let (name, default) = match body.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (body, None),
            };
            if name == "CLAUDE_PROJECT_DIR"
                && self.host == Host::ClaudeCode
                && let Some(project) = self.project
            {
                return Some(vec![Piece::Literal(project.display().to_string())]);
            }
            if name == "CLAUDE_PLUGIN_ROOT" && self.host == Host::ClaudeCode {
                found.note(
                    "`${CLAUDE_PLUGIN_ROOT}` is the folder of this version of the plugin: import it again after an \
                     update"
                        .to_owned(),
                );
                return Some(vec![Piece::Literal(self.plugin_folder().display().to_string())]);
            }
            if is_variable_name(name) {
                if default.is_some_and(|default| default.contains('{')) {
                    found.leave_out(format!("the default of `{name}` has a placeholder in it"));
                }
                let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
                return Some(vec![Piece::Placeholder(format!("${{{name}{default}}}"))]);
            }
        }
        if self.host != Host::ClaudeDesktop {
            let shown = if is_variable_name(body) { body } else { "…" };
            found.note(format!("`${{{shown}}}` stays as it is written, as {} does", self.host.name()));
        }
        None
    }

    /// The folder of the plugin of Claude Code that the file belongs to: `.mcp.json` is in it, and `plugin.json` in its
    /// folder `.claude-plugin`.
    fn plugin_folder(&self) -> &Path {
        match self.folder.parent() {
            Some(parent) if self.folder.ends_with(".claude-plugin") => parent,
            _ => self.folder,
        }
    }

    fn fill_editor_variable(&self, body: &str, found: &mut Findings) -> Option<Vec<Piece>> {
        let literal = |text: String| Some(vec![Piece::Literal(text)]);
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        match body {
            "userHome" => return Some(vec![variable(home)]),
            "pathSeparator" | "/" => return literal(std::path::MAIN_SEPARATOR_STR.to_owned()),
            "workspaceFolder" | "workspaceRoot" | "workspaceFolderBasename" => {
                let Some(project) = self.project else {
                    found.leave_out(format!(
                        "it uses `${{{body}}}`, which is the folder that {} has open",
                        self.host.name()
                    ));
                    return literal(String::new());
                };
                let is_folder = body != "workspaceFolderBasename";
                let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return literal(if is_folder { project.display().to_string() } else { name });
            }
            _ => {}
        }
        let (kind, rest) = body.split_once(':')?;
        match kind {
            "input" => {
                let input = self.inputs.iter().find(|input| input.id == rest);
                let name = variable_for_input(rest);
                let default = input.and_then(|input| input.default.as_deref());
                if let Some(default) = default.filter(|default| !default.contains(['{', '}'])) {
                    found.note(format!(
                        "{} asks for `{rest}`; {name} is used in its place, if it is set",
                        self.host.name()
                    ));
                    return Some(vec![Piece::Placeholder(format!("${{{name}:-{default}}}"))]);
                }
                found.attend(format!("{} asks for `{rest}`: set {name} to it", self.host.name()));
                Some(vec![variable(&name)])
            }
            "file" => Some(vec![self.file(rest)]),
            "workspaceFolder" | "config" | "command" => {
                found.leave_out(format!("it uses `${{{kind}:…}}`, which only {} knows", self.host.name()));
                Some(Vec::new())
            }
            _ => None,
        }
    }

    fn fill_curly<'t>(&self, text: &'t str) -> Option<(Vec<Piece>, &'t str)> {
        if let Some((name, after)) = text.strip_prefix("{env:").and_then(|inner| inner.split_once('}')) {
            return is_variable_name(name).then(|| (vec![variable(name)], after));
        }
        let (path, after) = text.strip_prefix("{file:")?.split_once('}')?;
        Some((vec![self.file(path)], after))
    }

    /// A placeholder for a file. The host looks for a relative path beside its own file.
    fn file(&self, path: &str) -> Piece {
        let path = path.trim();
        let path = if path.starts_with('~') {
            path.to_owned()
        } else {
            self.folder.join(path).display().to_string()
        };
        Piece::Placeholder(format!("{{file:{path}}}"))
    }
}

/// Joins pieces into a text in which we fill in exactly what the host fills in.
pub(super) fn join(pieces: Vec<Piece>, found: &mut Findings) -> String {
    let mut merged: Vec<Piece> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Literal(text) => push_literal(&mut merged, &text),
            placeholder @ Piece::Placeholder(_) => merged.push(placeholder),
        }
    }
    let mut out = String::new();
    let mut follows_dollar = false;
    for piece in merged {
        match piece {
            Piece::Literal(text) => {
                // After a `$`, they are a part of what is escaped.
                let unescaped = text.replace("${", "\0");
                let opening = ["{env:", "{file:"].into_iter().find(|opening| unescaped.contains(opening));
                if let Some(opening) = opening {
                    found.leave_out(format!("a value has the text `{opening}`, which bowline would fill in"));
                }
                follows_dollar = text.ends_with('$');
                out.push_str(&text.replace("${", "$${"));
            }
            Piece::Placeholder(text) => {
                if follows_dollar {
                    found.leave_out("a value has a `$` right before a placeholder".to_owned());
                }
                follows_dollar = false;
                out.push_str(&text);
            }
        }
    }
    out
}

/// A placeholder for a variable.
pub(super) fn variable(name: &str) -> Piece {
    Piece::Placeholder(format!("${{{name}}}"))
}

/// Whether this can be the name of a variable in our placeholders.
pub(super) fn is_variable_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.()".contains(&byte))
}

/// The name at the beginning of a text, and what follows it.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    is_variable_name(name).then_some((name, after))
}

/// The variable that takes the place of a value that VS Code asks for.
fn variable_for_input(id: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = id.chars().map(upper).collect();
    if is_variable_name(&name) { name } else { format!("INPUT_{name}") }
}

fn push_literal(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Literal(last)) => last.push_str(text),
        _ => pieces.push(Piece::Literal(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(host: Host, text: &str) -> Result<String, String> {
        let inputs = [Input { id: "port".into(), default: Some("80".into()) }];
        let project = Some(Path::new("/work/p"));
        let translator = Translator { host, folder: Path::new("/etc/host"), project, inputs: &inputs };
        let mut found = Findings::default();
        let text = translator.translate(text, &mut found);
        match found.left_out {
            Some(reason) => Err(reason),
            None => Ok(text),
        }
    }

    #[test]
    #[cfg(unix)]
    fn placeholders_of_each_host_become_ours() {
        for (host, text, expected) in [
            (Host::ClaudeCode, "Bearer ${A}", "Bearer ${A}"),
            (Host::ClaudeCode, "${A:-d e}", "${A:-d e}"),
            (Host::ClaudeCode, "${CLAUDE_PROJECT_DIR:-.}/x", "/work/p/x"),
            (Host::ClaudeCode, "${CLAUDE_PLUGIN_ROOT}/x", "/etc/host/x"),
            (Host::CopilotCli, "${CLAUDE_PLUGIN_ROOT}/x", "${CLAUDE_PLUGIN_ROOT}/x"),
            (Host::ClaudeCode, "$A {env:", "LEFT OUT"),
            (Host::ClaudeCode, "${A-b}", "$${A-b}"),
            (Host::ClaudeDesktop, "${A} $A", "$${A} $A"),
            (Host::Opencode, "{env:A}", "${A}"),
            (Host::Opencode, "{file:./k} {file:~/k} {file:/k}", "{file:/etc/host/./k} {file:~/k} {file:/k}"),
            (Host::Opencode, "${A}", "$${A}"),
            (Host::Codex, "${A}$${B}", "$${A}$$${B}"),
            (Host::Cursor, "${env:A}", "${A}"),
            (Host::Cursor, "${userHome}${/}x${pathSeparator}", "${HOME}/x/"),
            (Host::VsCode, "${workspaceFolder}/a", "/work/p/a"),
            (Host::VsCode, "${workspaceFolderBasename}", "p"),
            (Host::VsCode, "${input:my-key}", "${MY_KEY}"),
            (Host::VsCode, "${input:port}", "${PORT:-80}"),
            (Host::VsCode, "${command:x}", "LEFT OUT"),
            (Host::VsCode, "${A}", "$${A}"),
            (Host::Windsurf, "${file:/k}", "{file:/k}"),
            (Host::GeminiCli, "$A/${B} $1 $", "${A}/${B} $1 $"),
            (Host::QwenCode, "$A", "${A}"),
            (Host::Hermes, "${env:A}${B}", "${A}${B}"),
            (Host::Mcporter, "$env:A ${B:-c}", "${A} ${B:-c}"),
            (Host::Zed, "${A}", "$${A}"),
            (Host::GeminiCli, "$${A}", "LEFT OUT"),
            (Host::ClaudeCode, "${A:-{env:B}}", "LEFT OUT"),
            (Host::Cursor, "é${env:A}é", "é${A}é"),
            (Host::Cursor, "${env:A", "$${env:A"),
        ] {
            let found = translate(host, text).unwrap_or_else(|_| "LEFT OUT".to_owned());
            assert_eq!(found, expected, "{} {text}", host.id());
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_plugin_is_the_folder_above_its_manifest() {
        let folder = Path::new("/plugins/docs/.claude-plugin");
        let translator = Translator { host: Host::ClaudeCode, folder, project: None, inputs: &[] };
        let mut found = Findings::default();
        assert_eq!(translator.translate("${CLAUDE_PLUGIN_ROOT}/s", &mut found), "/plugins/docs/s");
        let note = "`${CLAUDE_PLUGIN_ROOT}` is the folder of this version of the plugin: import it again after an update";
        assert_eq!(found.notes, [note]);
    }

    #[test]
    fn a_workspace_is_known_only_in_a_project() {
        let translator =
            Translator { host: Host::VsCode, folder: Path::new("/x"), project: None, inputs: &[] };
        let mut found = Findings::default();
        translator.translate("${workspaceFolder}", &mut found);
        let reason = "it uses `${workspaceFolder}`, which is the folder that VS Code has open";
        assert_eq!(found.left_out.as_deref(), Some(reason));
    }
}
