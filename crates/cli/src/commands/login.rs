//! Implements `bowline login`.

use std::io::Read as _;
use std::time::{Duration, SystemTime};

use bowline::Server;
use bowline::auth::store::OpenedStore;
use bowline::auth::{Account, AuthErrorKind, LoginOptions, PendingLogin};
use bowline::config::{Grant, Http, Transport};
use serde_json::{Value, json};

use crate::args::{LoginArgs, TargetArgs};
use crate::dialog::{BrowserAccess, Dialogs};
use crate::exit::Exit;
use crate::failure::{Fact, Failure, Outcome, Report};
use crate::interrupt::Interrupt;
use crate::print::accounts;
use crate::server_auth::{HeaderAuth, header_auth};
use crate::settings::Settings;
use crate::settings::url_server::apply_oauth_args;
use crate::suggested_command::CommandLine;

pub(super) async fn run(args: LoginArgs, settings: &Settings) -> Outcome {
    let LoginArgs { server: typed, port, device, scopes, no_browser, finish, headers, url, oauth } = args;
    let target = TargetArgs { headers: headers.clone(), url: url.clone(), ..TargetArgs::default() };
    let server = settings.resolve_server(Some(&typed), target)?;
    let server = apply_oauth_args(server, &oauth, port, &*settings.env)?;
    let http = require_login_support(&server)?;
    let reach = if no_browser { BrowserAccess::Disabled } else { BrowserAccess::detect(&*settings.env) };
    let dialogs = Dialogs::open(&settings.printer, &*settings.env);
    let logins = settings.login_settings();
    let kept = logins.open_store().await?;
    kept.notes.iter().for_each(|note| settings.printer.note(note));
    let auth = settings.track_refreshes(logins.auth_with(&kept)).prompt(dialogs.login_prompt(reach));
    let identity = auth.identity(&server).ok_or_else(|| no_login_failure(&server))?;
    let options = LoginOptions::default().scopes(scopes);
    let options = if device { options.device_code() } else { options };
    // A device code is only shown and waited for: no input is read here.
    let by_device = device || http.auth.grant == Grant::Device;
    let asks = http.auth.grant == Grant::Person && !by_device;
    let work = async {
        let account = match finish {
            Some(address) => identity.finish_login(&read_callback_url(address)?).await,
            None if asks && !dialogs.has_person() => match identity.begin_login(&options).await {
                Ok(begun) => {
                    let options: Vec<String> =
                        oauth.to_words(port).into_iter().chain(url.to_words()).collect();
                    let finish = finish_command(&settings.command_line, &typed, &headers, &options);
                    return Err(unfinished_login_failure(&finish, &server, &begun));
                }
                Err(error) => Err(error),
            },
            None => identity.login(&options).await,
        };
        match account {
            Ok(account) => Ok(Some(account)),
            Err(error) if error.kind == AuthErrorKind::NotNeeded => Ok(None),
            Err(error) => Err(Failure::auth(&error, &server)),
        }
    };
    match run_until_interrupted(Box::pin(work), &dialogs).await? {
        // The login is reported as kept only after it has been stored.
        Some(_) if settings.refreshes.settle(&settings.printer).await => return Ok(Exit::Login),
        Some(account) => show_login(&account, &kept, settings)?,
        None => show_no_login_needed(&server, settings)?,
    }
    Ok(Exit::Ok)
}

/// Runs `work` until it is done or a signal arrives. An interrupted login is canceled in order, so
/// that the next one does not have to wait for it.
async fn run_until_interrupted<T>(work: impl Future<Output = Outcome<T>>, dialogs: &Dialogs) -> Outcome<T> {
    let mut interrupt = Interrupt::listen();
    let mut work = std::pin::pin!(work);
    let exit = tokio::select! {
        outcome = &mut work => return outcome,
        exit = interrupt.next() => exit,
        () = dialogs.interrupted() => Exit::Interrupted,
    };
    let leaving = async { tokio::join!(dialogs.dismiss(), work) };
    let _ = tokio::time::timeout(CANCEL_TIMEOUT, leaving).await;
    Err(Failure::Signal(exit))
}

const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the HTTP settings of the server, or an error if it cannot be logged in to.
fn require_login_support(server: &Server) -> Outcome<&Http> {
    let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else {
        return Err(no_login_failure(server));
    };
    let name = &server.name;
    let own = match header_auth(http) {
        Some(HeaderAuth::Fixed) => "sets an Authorization header",
        Some(HeaderAuth::Command) => "has a headers_command",
        None if http.auth.grant == Grant::Off => {
            return Err(Failure::usage_hint(
                format!("logins are turned off for `{name}`"),
                "remove `auth = false` from its entry",
            ));
        }
        None => return Ok(http),
    };
    Err(Failure::usage_hint(
        format!("the entry of `{name}` {own}, which is used instead of a login"),
        "remove it to log in",
    ))
}

fn no_login_failure(server: &Server) -> Failure {
    Failure::usage(format!("`{}` is a local command; it doesn't use `bowline login`", server.name))
}

/// Returns the callback URL that the person pasted; `-` reads it from stdin. It holds a code that
/// others could see in the arguments, but only the process that began the login can use it.
fn read_callback_url(address: String) -> Outcome<String> {
    if address != "-" {
        return Ok(address);
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MAX_CALLBACK_URL_BYTES).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("cannot read stdin: {error}")))?;
    Ok(text.trim().to_owned())
}

const MAX_CALLBACK_URL_BYTES: u64 = 64 * 1024;

/// Builds the failure for a login that needs a person where no terminal is: it says how to go on.
fn unfinished_login_failure(finish: &str, server: &Server, begun: &PendingLogin) -> Failure {
    let message = format!("`{}` requires a login, and there is no terminal to ask you on", server.name);
    let mut report = Report::new(Exit::Login, message);
    let sent = format!("{}…, which the browser cannot load", begun.redirect);
    for (label, line) in [("log in at", begun.url.as_str()), ("you are sent to", &sent)] {
        report.facts.push(Fact { label, lines: vec![line.to_owned()] });
    }
    let members = [
        ("server", Value::from(&*server.name)),
        ("url", begun.url.as_str().into()),
        ("redirect", begun.redirect.as_str().into()),
        ("finish", finish.into()),
    ];
    report.members.extend(members.map(|(name, value)| (name.to_owned(), value)));
    report.hint = Some(format!("then run: {finish}"));
    report.into()
}

/// Returns the command that finishes the login. Header values are often secret and are not
/// repeated.
fn finish_command(command_line: &CommandLine, typed: &str, headers: &[String], options: &[String]) -> String {
    let names = headers.iter().filter_map(|header| header.split_once(':'));
    let headers: Vec<String> = names.map(|(name, _)| format!("{}: THE SAME AS NOW", name.trim())).collect();
    let headers = headers.iter().flat_map(|header| ["-H", header]);
    let options = options.iter().map(String::as_str);
    let words = ["login", typed].into_iter().chain(options).chain(headers);
    command_line.format_command(words.chain(["--finish", "THE URL YOU WERE REDIRECTED TO"]))
}

/// Prints that the server needs no login, so that none is stored.
fn show_no_login_needed(server: &Server, settings: &Settings) -> Outcome<()> {
    let (printer, name) = (&settings.printer, server.name.as_str());
    if printer.is_json() {
        printer.write_json(&json!({ "server": name, "state": "not_needed" }).to_string())?;
    } else {
        printer.write_line(&format!("{name}: no login is needed"))?;
    }
    Ok(())
}

fn show_login(account: &Account, kept: &OpenedStore, settings: &Settings) -> Outcome<()> {
    let printer = &settings.printer;
    if printer.is_json() {
        let mut object = accounts::to_json(account);
        object["kept"] = accounts::store_json(kept);
        printer.write_json(&object.to_string())?;
    } else {
        printer.write_layout(&accounts::render_login(account, kept, SystemTime::now(), printer))?;
    }
    Ok(())
}
