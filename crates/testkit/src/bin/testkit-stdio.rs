//! The scripted MCP server on stdin and stdout. See `StdioServer` in the library.

fn main() {
    match bowline_testkit::stdio_main() {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("testkit-stdio: {error}");
            std::process::exit(2);
        }
    }
}
