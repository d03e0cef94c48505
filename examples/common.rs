//! Shared by all examples: parses the server on the command line.

use std::error::Error;

use bowline::Server;

/// The first argument as a server, and the arguments after it.
pub(crate) fn server_and_rest() -> Result<(Server, Vec<String>), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let target = args.next().ok_or("which server? Give a URL, or a command line in quotes")?;
    Ok((server("example", &target)?, args.collect()))
}

/// A server of this name: `http://…` or `https://…` is a URL; anything else is a command line, split
/// at white space.
pub(crate) fn server(name: &str, target: &str) -> Result<Server, Box<dyn Error>> {
    if target.starts_with("http://") || target.starts_with("https://") {
        return Ok(Server::http(name, target).build()?);
    }
    let mut words = target.split_whitespace();
    let program = words.next().ok_or("the command line is empty")?;
    Ok(Server::stdio(name, program).args(words).build()?)
}
