"""A server of FastMCP that reads tokens by itself: `guarded.py ISSUER`."""

import asyncio
import json
import socket
import sys

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token

issuer = sys.argv[1]
listening = socket.create_server(("127.0.0.1", 0))
origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
mcp = FastMCP(
    "guarded",
    auth=RemoteAuthProvider(
        token_verifier=JWTVerifier(
            jwks_uri=f"{issuer}/jwks", issuer=issuer, audience=f"{origin}/fast", required_scopes=["docs:read"]
        ),
        authorization_servers=[issuer],
        base_url=origin,
    ),
)


@mcp.tool
def whoami() -> str:
    """Who is asking."""
    return get_access_token().claims["sub"]


print(json.dumps({"mcp": f"{origin}/fast"}), flush=True)
server = uvicorn.Server(uvicorn.Config(mcp.http_app(path="/fast"), log_level="warning"))
asyncio.run(server.serve(sockets=[listening]))
