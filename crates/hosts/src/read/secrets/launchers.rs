//! Which programs run what their arguments name, and which of their options have values.

use crate::read::relay_command::program_name;

/// Programs that run what their arguments name.
pub(super) struct Launcher {
    names: &'static [&'static str],
    /// Words that come before what is run.
    pub(super) verbs: &'static [&'static str],
    /// Whether it runs packages, which strangers may have published.
    pub(super) is_package_runner: bool,
    /// Options that are more than a switch.
    options: &'static [(OptionKind, &'static [&'static str])],
    /// The letters of short options without a value; `None` if no other short option has one.
    short_switches: Option<&'static str>,
    pub(super) follow: Follow,
}

/// Where another program may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    /// What is run may be a launcher itself.
    Target,
    /// What comes after it may be a program.
    Rest,
    Nothing,
}

/// What an option of a launcher means for the words after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionKind {
    /// Its value is run, as that of `--package`.
    Runnable,
    /// Its value is run, and what follows are arguments, as with `-m` of Python.
    Last,
    /// The next word is code of a shell.
    Code,
    /// The next word is code in another language, which may have secrets in it.
    Program,
    /// It has a value that is not run.
    Value,
    /// It has no value.
    Switch,
    /// It may have a value.
    Unknown,
}

impl Launcher {
    /// Returns what is known of a program.
    pub(super) fn of(program: &str) -> Option<&'static Self> {
        let kind = program_kind(program);
        LAUNCHERS.iter().find(|launcher| launcher.names.contains(&&*kind))
    }

    /// Returns what is known of the first word of a command in code of a shell.
    pub(super) fn of_command(word: &str) -> Option<&'static Self> {
        Self::of(word).or_else(|| Some(&BUILTINS).filter(|builtins| builtins.names.contains(&word)))
    }

    /// Whether it runs code of a shell, which may be on the command line.
    pub(super) fn is_shell(&self) -> bool {
        self.names.contains(&"sh")
    }

    /// Whether it only starts another program.
    pub(super) fn is_wrapper(&self) -> bool {
        self.follow == Follow::Target && !self.is_package_runner
    }

    pub(super) fn option_kind(&self, option: &str) -> OptionKind {
        let is_shell = self.is_shell();
        let lower = option.to_ascii_lowercase();
        let named = |names: &&[&str]| names.contains(&option) || (is_shell && names.contains(&&*lower));
        if let Some((kind, _)) = self.options.iter().find(|(_, names)| named(names)) {
            return *kind;
        }
        // Such as `-lc`.
        let is_cluster = option.len() <= 6 && option.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
        if is_shell && is_cluster && option.contains('c') {
            return OptionKind::Code;
        }
        let is_switch = match option.strip_prefix("--") {
            Some(_) => {
                SWITCHES.contains(&option) || SWITCH_BEGINNINGS.iter().any(|begin| option.starts_with(begin))
            }
            None => {
                self.short_switches.is_none_or(|letters| option.chars().skip(1).all(|c| letters.contains(c)))
            }
        };
        if is_switch { OptionKind::Switch } else { OptionKind::Unknown }
    }
}

/// The name of a program, without the version of an interpreter.
pub(super) fn program_kind(program: &str) -> String {
    let name = program_name(program);
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'w');
    let versioned = ["python", "pypy", "ruby", "perl", "php", "lua", "node"];
    let kind = versioned.iter().find(|kind| name.strip_prefix(**kind).is_some_and(is_version));
    kind.map_or(name, ToString::to_string)
}

const LAUNCHERS: [Launcher; 8] = [
    Launcher {
        names: &["npx", "pnpx", "bunx", "uvx", "dnx"],
        verbs: &[],
        is_package_runner: true,
        options: PACKAGE_OPTIONS,
        short_switches: Some("yqsvAg"),
        follow: Follow::Target,
    },
    Launcher {
        names: &[
            "npm",
            "pnpm",
            "yarn",
            "bun",
            "pipx",
            "uv",
            "poetry",
            "pdm",
            "hatch",
            "rye",
            "pixi",
            "deno",
            "corepack",
            "dotnet",
            "go",
            "cargo",
            "conda",
            "mamba",
            "micromamba",
        ],
        verbs: &["exec", "x", "dlx", "run", "run-script", "tool"],
        is_package_runner: true,
        options: PACKAGE_OPTIONS,
        short_switches: Some("yqsvAg"),
        follow: Follow::Target,
    },
    Launcher {
        names: &["docker", "podman", "nerdctl"],
        verbs: &["run", "exec", "container", "compose"],
        is_package_runner: false,
        options: &[
            (OptionKind::Runnable, &["--entrypoint"]),
            (
                OptionKind::Value,
                &[
                    "-e",
                    "--env",
                    "--env-file",
                    "-v",
                    "--volume",
                    "--mount",
                    "-p",
                    "--publish",
                    "--name",
                    "--network",
                    "--net",
                    "-w",
                    "--workdir",
                    "-u",
                    "--user",
                    "-l",
                    "--label",
                    "--add-host",
                    "--platform",
                    "--pull",
                    "-h",
                    "--hostname",
                    "-m",
                    "--memory",
                    "-c",
                    "--cpu-shares",
                    "--cpus",
                    "--gpus",
                    "--device",
                    "--dns",
                    "--restart",
                    "--security-opt",
                    "--cap-add",
                    "--cap-drop",
                    "--tmpfs",
                    "--ulimit",
                    "--shm-size",
                    "--ipc",
                    "--pid",
                    "--secret",
                    "--log-driver",
                    "--log-opt",
                    "--context",
                    "-H",
                    "--host",
                    "--config",
                    "-f",
                    "--file",
                    "-a",
                    "--attach",
                ],
            ),
        ],
        short_switches: Some("itdPq"),
        follow: Follow::Rest,
    },
    Launcher {
        names: &["node", "nodejs", "tsx", "ts-node", "java"],
        verbs: &[],
        is_package_runner: false,
        options: &[
            (
                OptionKind::Runnable,
                &[
                    "-r",
                    "--require",
                    "--import",
                    "--loader",
                    "--experimental-loader",
                    "-cp",
                    "-classpath",
                    "--class-path",
                    "--module-path",
                ],
            ),
            (OptionKind::Last, &["-m", "-jar", "--module"]),
            (OptionKind::Program, &["-e", "--eval", "-p", "--print", "-pe"]),
            (
                OptionKind::Value,
                &["-C", "--conditions", "--env-file", "--input-type", "--title", "--tsconfig"],
            ),
        ],
        short_switches: None,
        follow: Follow::Nothing,
    },
    Launcher {
        names: &["python", "pypy"],
        verbs: &[],
        is_package_runner: false,
        options: &[
            (OptionKind::Last, &["-m"]),
            (OptionKind::Program, &["-c"]),
            (OptionKind::Value, &["-W", "-X", "--check-hash-based-pycs"]),
        ],
        short_switches: None,
        follow: Follow::Nothing,
    },
    Launcher {
        names: &[
            "ruby",
            "perl",
            "php",
            "lua",
            "luajit",
            "rscript",
            "julia",
            "groovy",
            "osascript",
            "wscript",
            "cscript",
        ],
        verbs: &[],
        is_package_runner: false,
        options: &[
            (OptionKind::Runnable, &["-r", "-I", "-f", "-C", "-L", "-l"]),
            (OptionKind::Program, &["-e", "--eval", "-E"]),
        ],
        short_switches: None,
        follow: Follow::Nothing,
    },
    Launcher {
        names: &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "pwsh", "powershell"],
        verbs: &[],
        is_package_runner: false,
        options: &[
            (OptionKind::Runnable, &["--rcfile", "--init-file"]),
            (OptionKind::Code, &["-command", "--command"]),
            (
                OptionKind::Value,
                &[
                    "-o",
                    "-executionpolicy",
                    "-ep",
                    "-ex",
                    "-exec",
                    "-windowstyle",
                    "-inputformat",
                    "-outputformat",
                    "-version",
                    "-workingdirectory",
                    "-wd",
                    "-configurationname",
                ],
            ),
        ],
        short_switches: None,
        follow: Follow::Rest,
    },
    Launcher {
        names: &[
            "env",
            "sudo",
            "doas",
            "nohup",
            "nice",
            "ionice",
            "timeout",
            "gtimeout",
            "setsid",
            "stdbuf",
            "xargs",
            "caffeinate",
            "winpty",
            "wsl",
            "cmd",
        ],
        verbs: &[],
        is_package_runner: false,
        options: &[
            (OptionKind::Code, &["-S", "--split-string"]),
            (
                OptionKind::Runnable,
                &[
                    "-u",
                    "-g",
                    "-C",
                    "--chdir",
                    "--unset",
                    "-s",
                    "--signal",
                    "-k",
                    "--kill-after",
                    "-n",
                    "-P",
                    "-I",
                ],
            ),
        ],
        short_switches: None,
        follow: Follow::Target,
    },
];

/// Words that begin a command in a shell, and are followed by another command, a file or code.
const BUILTINS: Launcher = Launcher {
    names: &[
        "exec", "command", "eval", "source", ".", "call", "start", "time", "then", "do", "else", "!", "if",
        "while", "{",
    ],
    verbs: &[],
    is_package_runner: false,
    options: &[],
    short_switches: None,
    follow: Follow::Target,
};

/// Options of those that run packages, and of those that run scripts of a project. The same letter may be a switch of one
/// and have a value of another, so that all values are shown.
const PACKAGE_OPTIONS: &[(OptionKind, &[&str])] = &[
    (
        OptionKind::Runnable,
        &[
            "-p",
            "--package",
            "--from",
            "--with",
            "-w",
            "--with-editable",
            "--with-requirements",
            "--spec",
            "--project",
            "--preload",
            "-r",
            "--import-map",
            "--python",
            "--registry",
            "--prefix",
            "-C",
            "--cwd",
            "--cache",
            "--cache-dir",
            "--userconfig",
            "--index",
            "--index-url",
            "-i",
            "--extra-index-url",
            "--default-index",
            "--find-links",
            "--env-file",
            "--directory",
            "--loglevel",
            "--script-shell",
            "--node-options",
            "--config",
            "--config-file",
            "--workspace",
            "--extra",
            "--group",
            "--configuration",
            "--framework",
            "--filter",
            "-F",
            "-n",
            "--name",
            "--scope",
            "--tag",
        ],
    ),
    (OptionKind::Code, &["-c", "--call"]),
    (OptionKind::Program, &["-e", "--eval", "--print"]),
];

/// Long options without a value.
const SWITCHES: &[&str] = &[
    "--",
    "--yes",
    "--quiet",
    "--silent",
    "--offline",
    "--verbose",
    "--force",
    "--ignore-existing",
    "--bun",
    "--frozen",
    "--locked",
    "--isolated",
    "--active",
    "--dev",
    "--refresh",
    "--reload",
    "--watch",
    "--hot",
    "--smol",
    "--rm",
    "--init",
    "--tty",
    "--interactive",
    "--detach",
    "--privileged",
    "--read-only",
    "--login",
    "--global",
    "--inspect",
    "--verbatim",
    "--inspect-brk",
    "--use-openssl-ca",
    "--use-system-ca",
    "--use-env-proxy",
    "--preserve-symlinks",
    "--expose-gc",
    "--throw-deprecation",
    "--pending-deprecation",
    "--permission",
    "--test",
    "--native-tls",
    "--exact",
    "--managed-python",
    "--strict",
    "--upgrade",
    "--reinstall",
    "--compile-bytecode",
    "--bare",
    "--posix",
    "--noprofile",
    "--norc",
    "--pure-lockfile",
    "--workspaces",
    "--include-workspace-root",
    "--if-present",
    "--foreground-scripts",
    "--preserve-env",
    "--ignore-environment",
    "--preserve-status",
    "--foreground",
];

/// Beginnings of long options without a value.
const SWITCH_BEGINNINGS: &[&str] = &[
    "--no-",
    "--allow-",
    "--deny-",
    "--experimental-",
    "--enable-",
    "--disable-",
    "--trace-",
    "--prefer-",
    "--harmony",
    "--unstable",
    "--all-",
];
