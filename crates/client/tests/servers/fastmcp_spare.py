"""A server made with FastMCP that is ready before it is wanted: `fastmcp_spare.py PORT`.

To load the framework takes seconds. This waits for a line on stdin when that is done, and listens then, so
that a restart takes only as long as it does for a server that starts fast. Each handshake is a line on stderr.
"""

import sys

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware

mcp = FastMCP("spare", version="1.0.0")


class Handshakes(Middleware):
    async def on_initialize(self, context, call_next):
        print("initialize", file=sys.stderr, flush=True)
        return await call_next(context)


mcp.add_middleware(Handshakes())


@mcp.tool(annotations={"readOnlyHint": True})
def look(number: int) -> int:
    """Changes nothing."""
    return number


@mcp.tool
def act(number: int) -> int:
    """Says nothing about being repeated."""
    return number


if __name__ == "__main__":
    print("loaded", file=sys.stderr, flush=True)
    if sys.stdin.readline():
        port = int(sys.argv[1])
        mcp.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="warning")
