//! Logs a person in, stores the login, and lists the server's tools. The second run needs no login.
//!
//! `cargo run -p bowline --example login -- https://example.com/mcp`

mod common;

use bowline::Client;
use bowline::auth::{App, Auth, DeviceCode, LoginPage, LoginPrompt, PageReply, PromptFuture, store};
use bowline::config::StoreConfig;

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, _) = common::server_and_rest()?;
    let folder = std::env::temp_dir().join("bowline-example");
    let opened = store::open(&StoreConfig::default(), &folder).await?;
    println!("logins are stored in {}", opened.location);
    let app = App::new("Example host");
    let auth = Auth::new(opened.store).app(app).prompt(Terminal);
    let client = Client::builder(server.clone()).auth(auth.clone()).connect().await?;
    for tool in client.list_tools().await? {
        println!("{}", tool.name);
    }
    client.close().await;
    if let Some(identity) = auth.identity(&server)
        && let Some(account) = identity.account().await?
    {
        println!("as {} of {}", account.who.as_deref().unwrap_or("somebody"), account.issuer);
    }
    // A thread still waits for a line on stdin.
    std::process::exit(0);
}
