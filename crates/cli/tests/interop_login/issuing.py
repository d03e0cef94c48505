"""An MCP server that gives out its own tokens: `issuing.py SETTINGS`, in JSON.

`make`: "fastmcp", or "sdk" for the Python SDK without FastMCP. `clients`: those that it knows, each with `id`, `method`
and perhaps `secret`. `registers`: how clients that register themselves have to prove themselves, whatever they ask for.
"""

import asyncio
import json
import socket
import sys
import threading
from urllib.parse import parse_qsl

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull

settings = json.loads(sys.argv[1])
listening = socket.create_server(("127.0.0.1", 0))
origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
record = []


class AnyRedirect(OAuthClientInformationFull):
    """A client that was registered for every port of this machine, as by hand it is."""

    def validate_redirect_uri(self, redirect_uri):
        return redirect_uri


def provider():
    made = InMemoryOAuthProvider(
        base_url=origin,
        client_registration_options=ClientRegistrationOptions(enabled=True),
        revocation_options=RevocationOptions(enabled=True),
    )
    for client in settings["clients"]:
        made.clients[client["id"]] = AnyRedirect(
            client_id=client["id"],
            client_secret=client.get("secret"),
            token_endpoint_auth_method=client["method"],
            redirect_uris=["http://127.0.0.1/callback"],
            grant_types=["authorization_code", "refresh_token"],
        )
    return made


def hello() -> str:
    """Says hello to whoever was let in."""
    return "hello"


gives = provider()
if settings["make"] == "fastmcp":
    mcp = FastMCP("issuing", auth=gives)
    mcp.tool(hello)
    app = mcp.http_app(path="/mcp")
else:
    mcp = MCPServer(
        "issuing",
        auth_server_provider=gives,
        auth=AuthSettings(
            issuer_url=origin,
            resource_server_url=f"{origin}/mcp",
            validate_token_resource=False,
            client_registration_options=ClientRegistrationOptions(enabled=True),
            revocation_options=RevocationOptions(enabled=True),
        ),
    )
    mcp.tool()(hello)
    app = mcp.streamable_http_app(streamable_http_path="/mcp")


async def watched(scope, receive, send):
    """Writes down how clients prove themselves, and has them register as the settings say."""
    if scope["type"] != "http" or scope["path"] not in ("/token", "/revoke", "/register"):
        return await app(scope, receive, send)
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    headers = dict(scope["headers"])
    if scope["path"] == "/register":
        if settings.get("registers"):
            body = json.dumps({**json.loads(body), "token_endpoint_auth_method": settings["registers"]}).encode()
        lengths = [(b"content-length", str(len(body)).encode())]
        scope["headers"] = [it for it in scope["headers"] if it[0] != b"content-length"] + lengths
    seen = {"path": scope["path"], "basic": headers.get(b"authorization", b"").startswith(b"Basic ")}
    fields = dict(parse_qsl(body.decode())) if scope["path"] != "/register" else {}
    seen["grant"] = fields.get("grant_type")
    seen["fields"] = [name for name in fields if name.startswith("client_")]
    whole = [{"type": "http.request", "body": body, "more_body": False}]

    async def again():
        return whole.pop() if whole else await receive()

    async def answered(message):
        if message["type"] == "http.response.start":
            record.append({**seen, "status": message["status"]})
        await send(message)

    await app(scope, again, answered)


def commands():
    """A line of JSON each way, as with the scripts of Node."""
    for line in sys.stdin:
        ok = None
        match json.loads(line)["do"]:
            case "record":
                ok = record
            case "end":
                gives.access_tokens.clear()
            case "good":
                ok = len(gives.access_tokens)
        print(json.dumps({"ok": ok}), flush=True)


print(json.dumps({"mcp": f"{origin}/mcp"}), flush=True)
threading.Thread(target=commands, daemon=True).start()
server = uvicorn.Server(uvicorn.Config(watched, log_level="warning", lifespan="on"))
asyncio.run(server.serve(sockets=[listening]))
