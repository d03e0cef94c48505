//! The authorization server, and an MCP server it protects, in their own process.

fn main() {
    if let Err(error) = bowline_testkit::auth_main() {
        eprintln!("testkit-auth: {error}");
        std::process::exit(2);
    }
}
