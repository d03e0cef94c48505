"""A server made with FastMCP whose calls become tasks, for the interop tests: `fastmcp_tasks_server.py PORT`."""

import asyncio
import sys
from datetime import timedelta

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

mcp = FastMCP("braids", version="3.2.1")
mcp.add_extension(TasksExtension())
often = TaskConfig(mode="optional", poll_interval=timedelta(milliseconds=100))


@mcp.tool(task=often)
async def braid(strands: int) -> str:
    """Takes a while."""
    await asyncio.sleep(0.5)
    return f"braided {strands}"


@mcp.tool(task=often)
async def fray() -> str:
    """Fails."""
    raise ValueError("no rope")


@mcp.tool(task=often)
async def ask(ctx: Context) -> str | mcp_types.InputRequiredResult:
    """Asks in the middle of it."""
    if ctx.input_responses is None:
        schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
        form = mcp_types.ElicitRequestFormParams(message="Which rope?", requested_schema=schema)
        return mcp_types.InputRequiredResult(input_requests={"rope": mcp_types.ElicitRequest(params=form)})
    return f"took {ctx.input_responses['rope'].content['value']}"


@mcp.tool(task=often)
async def wait() -> str:
    """Does not end by itself."""
    await asyncio.sleep(3600)
    return "never"


mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
