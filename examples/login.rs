//! Logs a person in, stores the login, and lists the server's tools. The second run needs no login.
//!
//! `cargo run -p bowline --example login -- https://example.com/mcp`

mod common;

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use bowline::auth::{App, Auth, DeviceCode, LoginPage, LoginPrompt, PageReply, PromptFuture, store};
use bowline::config::StoreConfig;
use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, _) = common::server_and_rest()?;
    let folder = std::env::temp_dir().join("bowline-example");
    run(server, &StoreConfig::default(), &folder, Terminal, &mut stdout()).await?;
    // A thread still waits for a line on stdin.
    std::process::exit(0);
}

struct Terminal;

impl LoginPrompt for Terminal {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        Box::pin(async move {
            println!("{} wants you to log in at {}:\n{}", page.server, page.issuer, page.url);
            println!("If the browser is elsewhere, paste the address that it ends up at:");
            // Races against the redirect of a browser on this machine.
            let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
            match line.await {
                Ok(Some(Ok(line))) => PageReply::Pasted(line),
                // Without a terminal, only the browser can complete the login.
                _ => std::future::pending().await,
            }
        })
    }

    fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()> {
        println!("{}: type {} in at {}", code.server, code.code, code.url);
        Box::pin(std::future::pending())
    }
}

/// Lists the tools of a server with the login that is stored in `folder`, or a new one.
pub(crate) async fn run(
    server: Server,
    config: &StoreConfig,
    folder: &Path,
    prompt: impl LoginPrompt + 'static,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let opened = store::open(config, folder).await?;
    writeln!(out, "logins are stored in {}", opened.location)?;
    let auth = Auth::new(opened.store).app(App::new("Example host")).prompt(prompt);
    let client = Client::builder(server.clone()).auth(auth.clone()).connect().await?;
    for tool in client.list_tools().await? {
        writeln!(out, "{}", tool.name)?;
    }
    client.close().await;
    if let Some(identity) = auth.identity(&server)
        && let Some(account) = identity.account().await?
    {
        writeln!(out, "as {} of {}", account.who.as_deref().unwrap_or("somebody"), account.issuer)?;
    }
    Ok(())
}
