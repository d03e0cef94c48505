//! Serves what installed programs talk to, on a port of this machine: an npm registry with the built
//! packages alone, and an MCP server that answers the handshake.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest;
use serde_json::{Value, json};

/// A package of the registry.
pub(super) struct Package {
    /// The content of its `package.json`.
    pub(super) manifest: Value,
    pub(super) tarball: Vec<u8>,
}

/// The server; it serves until this process ends.
pub(super) struct Server {
    address: SocketAddr,
}

impl Server {
    pub(super) fn start(packages: Vec<Package>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let packages: Arc<[Package]> = packages.into();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let packages = Arc::clone(&packages);
                thread::spawn(move || serve(connection, address, &packages));
            }
        });
        Ok(Self { address })
    }

    pub(super) fn registry_url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(super) fn mcp_url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

struct Response {
    status: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
}

/// Answers one request and closes the connection. An error is the client's to report.
fn serve(mut connection: TcpStream, address: SocketAddr, packages: &[Package]) -> Result<()> {
    let request = read_request(&connection)?;
    let Response { status, content_type, body } = match request.path.as_str() {
        "/mcp" => answer_mcp(&request)?,
        _ => answer_npm(&request, address, packages)?,
    };
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    connection.write_all(&body)?;
    Ok(())
}

fn read_request(connection: &TcpStream) -> Result<Request> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let method = words.next().context("a request has a method")?.to_owned();
    let path = words.next().context("a request has a path")?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Request { method, path, body })
}

fn answer_npm(request: &Request, address: SocketAddr, packages: &[Package]) -> Result<Response> {
    // npm escapes the slash of a name with a scope.
    let path = request.path.trim_start_matches('/').replace("%2f", "/").replace("%2F", "/");
    let named = |name: &str| packages.iter().find(|package| package.manifest["name"] == name);
    if let Some(name) = path.strip_suffix("/-/package.tgz")
        && let Some(package) = named(name)
    {
        let body = package.tarball.clone();
        return Ok(Response { status: "200 OK", content_type: "application/octet-stream", body });
    }
    let Some(package) = named(&path) else {
        let body = b"{\"error\":\"not found\"}".to_vec();
        return Ok(Response { status: "404 Not Found", content_type: "application/json", body });
    };
    let version = package.manifest["version"].as_str().context("a manifest has a version")?;
    let mut manifest = package.manifest.clone();
    let sum = STANDARD.encode(digest::digest(&digest::SHA512, &package.tarball));
    manifest["dist"] = json!({
        "tarball": format!("http://{address}/{path}/-/package.tgz"),
        "integrity": format!("sha512-{sum}"),
    });
    let description = json!({
        "name": path,
        "dist-tags": { "latest": version },
        "versions": { version: manifest },
    });
    Ok(Response { status: "200 OK", content_type: "application/json", body: description.to_string().into() })
}

/// Answers as a server of 2025-06-18 that offers nothing.
fn answer_mcp(request: &Request) -> Result<Response> {
    let answer =
        |status, body: String| Response { status, content_type: "application/json", body: body.into() };
    if request.method != "POST" {
        return Ok(answer("405 Method Not Allowed", String::new()));
    }
    let message: Value = serde_json::from_slice(&request.body)?;
    if message.get("id").is_none() {
        return Ok(answer("202 Accepted", String::new()));
    }
    let mut reply = json!({ "jsonrpc": "2.0", "id": message["id"] });
    if message["method"] == "initialize" {
        reply["result"] = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "serverInfo": { "name": "packages", "version": "1" },
        });
    } else {
        reply["error"] = json!({ "code": -32601, "message": "Method not found" });
    }
    Ok(answer("200 OK", reply.to_string()))
}
