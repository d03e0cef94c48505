//! The program `testkit-auth`: an authorization server and an MCP server that it protects.

use std::io::{Write as _, stdin, stdout};

use serde_json::json;

use super::{AuthScript, Protection};
use crate::script::Script;

/// Prints the addresses as JSON, then serves until stdin closes. The arguments are the scripts of
/// both servers in their JSON form, both optional.
#[doc(hidden)]
pub fn auth_main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let auth =
        arguments.next().map_or_else(|| Ok(AuthScript::default()), |json| AuthScript::from_json(&json))?;
    let script = arguments.next().map_or_else(|| Ok(Script::default()), |json| Script::from_json(&json))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (auth, server) = runtime.block_on(async {
        let auth = auth.start().await;
        let server = script.protected(Protection::with_auth_server(&auth)).run().await;
        (auth, server)
    });
    let addresses = json!({"issuer": auth.issuer(), "origin": auth.origin(), "url": server.url()});
    writeln!(stdout(), "{addresses}")?;
    std::io::copy(&mut stdin(), &mut std::io::sink())?;
    Ok(())
}
