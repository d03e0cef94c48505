"""A server made with the Python SDK, on which FastMCP rests, for the interop tests: `python_sdk_server.py stdio`, or
`python_sdk_server.py http PORT`. Unlike FastMCP it serves `subscriptions/listen`."""

import os
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource
from mcp_types import ToolAnnotations

mcp = MCPServer("blocks", version="2.0.0", log_level="WARNING")
loads = {"block://a": 1, "block://b": 1}


@mcp.resource("block://a")
def a() -> str:
    """One."""
    return str(loads["block://a"])


@mcp.resource("block://b")
def b() -> str:
    """The other."""
    return str(loads["block://b"])


@mcp.tool()
async def load(uri: str, ctx: Context) -> str:
    """Changes a resource."""
    loads[uri] += 1
    await ctx.notify_resource_updated(uri)
    return str(loads[uri])


@mcp.tool()
async def rig(name: str, ctx: Context) -> str:
    """Adds a tool, a prompt and a resource, and says so."""
    mcp.add_tool(lambda: name, name=name, description="New.")
    mcp.add_prompt(Prompt.from_function(lambda: name, name=name))
    mcp.add_resource(TextResource(uri=f"block://{name}", name=name, text=name))
    await ctx.notify_tools_changed()
    await ctx.notify_prompts_changed()
    await ctx.notify_resources_changed()
    return "rigged"


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
def process_id() -> str:
    """Who serves."""
    return str(os.getpid())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            mcp.run("stdio")
        case ["http", port]:
            mcp.run("streamable-http", host="127.0.0.1", port=int(port), streamable_http_path="/mcp")
        case other:
            sys.exit(f"stdio, or http PORT; not {other}")
