//! A small MCP server for `bowline demo`, on a loopback port of this process: Streamable HTTP,
//! revision 2025-11-25, with sessions. `http` moves bytes; `knots` is what it knows.

mod http;
mod knots;

pub(crate) use http::DemoServer;
