//! Formats logins: a block for people, lines for pipes, JSON for machines. Nothing in it is secret: of URLs, only
//! those parts of the path are shown that look like words, which tell logins of one host apart.

use std::fmt::Write as _;
use std::time::SystemTime;

use anstyle::Style;
use bowline::auth::store::{OpenedStore, StoreKeyLocation};
use bowline::auth::{Account, AccountState};
use bowline_transport::describe_url_text;
use serde_json::{Value, json};

use super::table::Table;
use super::{BAD, FAINT, GOOD, HINT, NAME, Printer, STRONG, clock, escape};
use crate::server_auth::HeaderAuth;

/// How we authenticate to one server.
pub(crate) enum ServerIdentity {
    /// By a stored login.
    Login(Box<Account>),
    /// By headers of the configuration, which take precedence over a login.
    Headers {
        server: String,
        /// URL without what may be a key.
        url: String,
        how: HeaderAuth,
    },
}

impl HeaderAuth {
    fn describe(self) -> &'static str {
        match self {
            Self::Fixed => "its entry sets Authorization",
            Self::Command => "its entry has a headers_command",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Fixed => "headers",
            Self::Command => "headers_command",
        }
    }
}

impl ServerIdentity {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Login(account) => to_json(account),
            Self::Headers { server, url, how } => json!({ "server": server, "url": url, "by": how.name() }),
        }
    }

    /// Returns the cells of a line in a pipe.
    fn cells(&self, now: SystemTime) -> [String; 8] {
        match self {
            Self::Login(account) => [
                account.server.clone(),
                account_name(account).unwrap_or_default(),
                state_text(account).1,
                expiry_text(account, now).unwrap_or_default(),
                if account.refreshable { "refreshed" } else { "not refreshed" }.to_owned(),
                account.refreshed_at.map(|at| relative_time(at, now)).unwrap_or_default(),
                describe_url_text(&account.issuer),
                account.scopes.join(" "),
            ],
            Self::Headers { server, how, .. } => {
                let mut cells: [String; 8] = Default::default();
                cells[0].clone_from(server);
                how.describe().clone_into(&mut cells[2]);
                cells
            }
        }
    }

    fn render_block(&self, now: SystemTime, printer: &Printer) -> String {
        match self {
            Self::Login(account) => {
                let (style, text) = state_text(account);
                let who = account_name(account)
                    .map(|name| format!(" as {}", escape::line(&name)))
                    .unwrap_or_default();
                let title = printer.paint(NAME, &escape::line(&account.server));
                let state = printer.paint(style, &escape::line(&text));
                format!("{title}{who}: {state}\n{}", fact_lines(account, now, printer))
            }
            Self::Headers { server, url, how } => {
                let title = printer.paint(NAME, &escape::line(server));
                let label = printer.paint(FAINT, "  server   ");
                format!("{title}: {}\n{label}{}\n", how.describe(), escape::line(url))
            }
        }
    }
}

/// Formats all identities for stdout.
pub(crate) fn render(all: &[ServerIdentity], now: SystemTime, printer: &Printer) -> String {
    if printer.on_terminal() {
        return all.iter().map(|one| one.render_block(now, printer)).collect();
    }
    let mut table = Table::new([""; 8]);
    for one in all {
        table.push_row(one.cells(now));
    }
    table.render(printer)
}

pub(crate) fn render_login(
    account: &Account,
    kept: &OpenedStore,
    now: SystemTime,
    printer: &Printer,
) -> String {
    let who = account_name(account).map(|name| format!(" as {}", escape::line(&name))).unwrap_or_default();
    let title = printer.paint(GOOD, &format!("logged in to {}{who}", escape::line(&account.server)));
    let label = printer.paint(FAINT, "  kept     ");
    format!("{title}\n{}{label}{}\n", fact_lines(account, now, printer), escape::line(&describe_store(kept)))
}

pub(crate) fn to_json(account: &Account) -> Value {
    let (state, why) = match &account.state {
        AccountState::Ok => ("ok", None),
        AccountState::Expired => ("expired", None),
        AccountState::RefreshFailing(why) => ("refresh_failing", Some(why)),
        AccountState::NeedsLogin(why) => ("needs_login", Some(why)),
        _ => ("unknown", None),
    };
    json!({
        "server": account.server,
        "by": "login",
        "account": account.label,
        "who": account.who,
        "url": describe_url_text(&account.url),
        "issuer": describe_url_text(&account.issuer),
        "resource": account.resource.as_deref().map(describe_url_text),
        "scopes": account.scopes,
        "client_id": account.client_id,
        "client": account.client,
        "scheme": account.scheme,
        "expires_at": account.expires_at.map(clock::utc),
        "refreshable": account.refreshable,
        "logged_in_at": clock::utc(account.logged_in_at),
        "refreshed_at": account.refreshed_at.map(clock::utc),
        "state": state,
        "why": why,
    })
}

/// Describes where logins are stored, and where their key is.
pub(crate) fn describe_store(kept: &OpenedStore) -> String {
    format!("in {}, encrypted with a key in {}", kept.location, kept.key_location)
}

pub(crate) fn store_json(kept: &OpenedStore) -> Value {
    let (key, file) = match &kept.key_location {
        StoreKeyLocation::Keyring => ("keyring", None),
        StoreKeyLocation::File(path) => ("file", Some(path)),
        StoreKeyLocation::Caller => ("given", None),
        _ => ("unknown", None),
    };
    json!({ "place": kept.location, "key": key, "key_file": file })
}

fn fact_lines(account: &Account, now: SystemTime, printer: &Printer) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: &str| {
        let label = printer.paint(FAINT, &format!("  {label:<9}"));
        writeln!(out, "{label}{}", escape::line(text)).expect("writing to a string");
    };
    line("server", &describe_url_text(&account.url));
    line("issuer", &describe_url_text(&account.issuer));
    let scopes = if account.scopes.is_empty() { "not said".to_owned() } else { account.scopes.join(", ") };
    line("scopes", &scopes);
    let refreshed = match (account.refreshable, account.refreshed_at) {
        (false, _) => "not refreshed automatically".to_owned(),
        (true, None) => "refreshed automatically".to_owned(),
        (true, Some(at)) => format!("refreshed automatically, last {}", relative_time(at, now)),
    };
    let expires = expiry_text(account, now).unwrap_or_else(|| "not said".to_owned());
    line("expires", &format!("{expires}; {refreshed}"));
    out
}

fn state_text(account: &Account) -> (Style, String) {
    match &account.state {
        AccountState::Ok => (GOOD, "ok".to_owned()),
        AccountState::Expired if account.refreshable => (STRONG, "expired".to_owned()),
        AccountState::Expired => (HINT, "expired".to_owned()),
        AccountState::RefreshFailing(why) => (HINT, format!("cannot be refreshed at the moment: {why}")),
        AccountState::NeedsLogin(why) => (BAD, format!("needs a login: {why}")),
        _ => (FAINT, "unknown".to_owned()),
    }
}

/// Returns the account name: the label in the configuration, and what the authorization server
/// calls it.
fn account_name(account: &Account) -> Option<String> {
    match (&account.label, &account.who) {
        (Some(label), Some(who)) if label != who => Some(format!("{who} ({label})")),
        (label, who) => who.clone().or_else(|| label.clone()),
    }
}

fn expiry_text(account: &Account, now: SystemTime) -> Option<String> {
    account.expires_at.map(|at| relative_time(at, now))
}

/// Formats a time relative to now: `in 52m 07s`, `3m 02s ago`.
fn relative_time(at: SystemTime, now: SystemTime) -> String {
    match at.duration_since(now) {
        Ok(left) => format!("in {}", clock::format_span(left)),
        Err(_) => format!("{} ago", clock::format_span(clock::since(now, at))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_told_from_now() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100_000);
        assert_eq!(relative_time(now + Duration::from_secs(187), now), "in 3m 07s");
        assert_eq!(relative_time(now - Duration::from_secs(7), now), "7s ago");
        assert_eq!(relative_time(now, now), "in 0s");
    }
}
