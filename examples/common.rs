//! Shared by all examples: parses the server on the command line.

use std::error::Error;

use bowline::Server;

/// The first argument as a server, and the arguments after it.
///
/// `http://…` or `https://…` is a URL; anything else is a command line, split at white space.
pub(crate) fn server_and_rest() -> Result<(Server, Vec<String>), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let target = args.next().ok_or("which server? Give a URL, or a command line in quotes")?;
    let server = if target.starts_with("http://") || target.starts_with("https://") {
        Server::http("example", target).build()?
    } else {
        let mut words = target.split_whitespace();
        let program = words.next().ok_or("the command line is empty")?;
        Server::stdio("example", program).args(words).build()?
    };
    Ok((server, args.collect()))
}
