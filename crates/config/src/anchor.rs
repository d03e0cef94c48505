//! Owns which folder the programs of a project's file run in: the project's, whatever the current
//! folder is. Otherwise trusting a file would mean trusting any program of that name in any folder
//! below it.

use std::path::Path;

use crate::auth::{Grant, Program, TokenSource};
use crate::config::Config;
use crate::hook::{Hook, HookAction};
use crate::server::{Http, Server, Transport};

impl Config {
    /// Anchors all programs of the configuration in `folder`: each runs there unless its entry
    /// names another folder (`cwd`), and a relative path of a program is looked up in the folder it
    /// runs in. A bare name is still searched for.
    ///
    /// Meant for a file that applies to every folder below its own; [`Config::layered`] does it for
    /// a project's.
    #[must_use]
    pub fn anchored(mut self, folder: &Path) -> Self {
        let anchor = Anchor(folder);
        self.hooks.iter_mut().for_each(|hook| anchor.hook(hook));
        self.servers.values_mut().for_each(|server| anchor.server(server));
        self
    }
}

/// The folder of a project.
struct Anchor<'a>(&'a Path);

impl Anchor<'_> {
    fn server(&self, server: &mut Server) {
        server.hooks.iter_mut().for_each(|hook| self.hook(hook));
        match &mut server.transport {
            Transport::Stdio(program) => self.program(program),
            Transport::Http(http) | Transport::Sse(http) => self.http(http),
        }
    }

    fn http(&self, http: &mut Http) {
        if let Some(headers) = &mut http.headers_command {
            self.program(&mut headers.program);
        }
        let supply = match &mut http.auth.grant {
            Grant::Enterprise(idp) => &mut idp.id_token,
            Grant::Workload(assertion) => assertion,
            Grant::Person | Grant::Device | Grant::ClientCredentials | Grant::Off => return,
        };
        match supply {
            TokenSource::Command(program) => self.program(program),
            TokenSource::Value(_) | TokenSource::File(_) => {}
        }
    }

    fn hook(&self, hook: &mut Hook) {
        match &mut hook.action {
            HookAction::Command(program) => self.program(program),
            HookAction::Webhook { .. } => {}
        }
    }

    /// Sets the folder, and makes a relative path of a command absolute, because systems differ in
    /// where they look for one.
    fn program(&self, program: &mut Program) {
        let Program { command, cwd, args: _, env: _ } = program;
        let cwd = cwd.get_or_insert_with(|| self.0.to_owned());
        let path = Path::new(command.as_str());
        if path.is_relative() && path.components().count() > 1 {
            // A path that is not UTF-8 is left to whoever starts the program, in that folder.
            if let Ok(absolute) = cwd.join(path).into_os_string().into_string() {
                *command = absolute;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::environment::FixedEnvironment;
    use crate::source::Source;

    use super::*;

    fn anchored(text: &str) -> Config {
        let source = Source::new("/site/bowline.toml", text);
        crate::parse(&source, &FixedEnvironment::default()).unwrap().anchored(Path::new("/site"))
    }

    #[test]
    fn every_program_is_anchored() {
        let config = anchored(
            r"
            [[hooks]]
            command = './tell'
            [servers.started]
            command = './server'
            hooks = [{ command = 'bin/tell' }]
            [servers.named]
            command = 'npx'
            [servers.elsewhere]
            command = '/opt/server'
            cwd = 'sub'
            [servers.below]
            command = './server'
            cwd = 'sub'
            [servers.reached]
            url = 'https://h/'
            headers_command = ['./headers']
            [servers.machine]
            url = 'https://h/'
            auth = { grant = 'workload', assertion = { command = ['./token'] } }
            ",
        );
        let of = |name: &str| match &config.servers[name].transport {
            Transport::Stdio(stdio) => (stdio.command.as_str(), stdio.cwd.as_deref().unwrap()),
            Transport::Http(http) | Transport::Sse(http) => {
                let program = match (&http.headers_command, &http.auth.grant) {
                    (Some(headers), _) => &headers.program,
                    (None, Grant::Workload(TokenSource::Command(program))) => program,
                    _ => unreachable!(),
                };
                (program.command.as_str(), program.cwd.as_deref().unwrap())
            }
        };
        let site = Path::new("/site");
        assert_eq!(of("started"), ("/site/./server", site));
        assert_eq!(of("named"), ("npx", site));
        assert_eq!(of("elsewhere"), ("/opt/server", Path::new("/site/sub")));
        assert_eq!(of("below"), ("/site/sub/./server", Path::new("/site/sub")));
        assert_eq!(of("reached"), ("/site/./headers", site));
        assert_eq!(of("machine"), ("/site/./token", site));
        let hooks = config.hooks.iter().chain(&config.servers["started"].hooks);
        let hooks: Vec<(&str, Option<&Path>)> = hooks
            .map(|hook| match &hook.action {
                HookAction::Command(program) => (program.command.as_str(), program.cwd.as_deref()),
                HookAction::Webhook { .. } => unreachable!(),
            })
            .collect();
        assert_eq!(hooks, [("/site/./tell", Some(site)), ("/site/bin/tell", Some(site))]);
    }

    #[test]
    fn layered_project_keeps_its_folder() {
        let parse = |path: &str, text: &str| {
            crate::parse(&Source::new(path, text), &FixedEnvironment::default()).unwrap()
        };
        let user = parse("/home/me/config.toml", "[servers.own]\ncommand = './own'");
        let project = parse("/site/bowline.toml", "[servers.theirs]\ncommand = './theirs'");
        let both = Config::layered(user, project);
        let command = |name: &str| match &both.servers[name].transport {
            Transport::Stdio(stdio) => stdio.command.clone(),
            _ => unreachable!(),
        };
        assert_eq!((command("own").as_str(), command("theirs").as_str()), ("./own", "/site/./theirs"));
    }
}
