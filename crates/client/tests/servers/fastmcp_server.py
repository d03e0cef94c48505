"""A server made with FastMCP, for the interop tests: `fastmcp_server.py stdio` or `fastmcp_server.py http PORT`."""

import asyncio
import os
import sys
from dataclasses import dataclass

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.utilities.types import Audio, Image

# Small pages, so that every list takes several.
mcp = FastMCP("ropes", instructions="Coil them.", version="3.2.1", list_page_size=2)
hung = {"began": 0, "cancelled": 0}
# Set anew for whoever waits for the counts to change.
changed = asyncio.Event()


@dataclass
class Rope:
    """A rope that was cut to length."""

    name: str
    meters: float


@mcp.tool(annotations={"readOnlyHint": True})
def cut(name: str, meters: float) -> Rope:
    """Cuts a rope."""
    return Rope(name, meters)


@mcp.tool
def double(number: int) -> int:
    """A result that is no object."""
    return 2 * number


@mcp.tool
def fail() -> str:
    """Fails."""
    raise ToolError("the rope broke")


@mcp.tool
def pictures() -> list:
    """Several kinds of content."""
    return ["words", Image(data=b"\x00\x01\x02", format="png"), Audio(data=b"\x03\x04\x05", format="wav")]


@mcp.tool
async def count(to: int, ctx: Context) -> str:
    """Reports its progress."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
    return "counted"


@mcp.tool
async def say(what: str, ctx: Context) -> str:
    """Logs."""
    await ctx.info(what, logger_name="ropes")
    return "said"


@mcp.tool
async def greet(ctx: Context) -> str | mcp_types.InputRequiredResult:
    """Asks for a name, in the way of the era."""
    if ctx.request_context.protocol_version < "2026-07-28":
        answer = await ctx.elicit("Who are you?", response_type=str)
        return f"hello {answer.data}" if isinstance(answer, AcceptedElicitation) else "hello stranger"
    if ctx.input_responses is None:
        params = mcp_types.ElicitRequestFormParams(
            message="Who are you?",
            requested_schema={"type": "object", "properties": {"value": {"type": "string"}}},
        )
        return mcp_types.InputRequiredResult(
            input_requests={"who": mcp_types.ElicitRequest(params=params)}, request_state="asked"
        )
    if ctx.request_state != "asked":
        raise ToolError(f"the state came back as {ctx.request_state!r}")
    answer = ctx.input_responses["who"]
    return f"hello {answer.content['value']}" if answer.action == "accept" else "hello stranger"


@mcp.tool
async def hang() -> str:
    """Waits until it is cancelled."""
    note("began")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("cancelled")
        raise
    return "never"


def note(what: str) -> None:
    global changed
    hung[what] += 1
    changed.set()
    changed = asyncio.Event()


@mcp.tool
async def hung_so_often(began: int, cancelled: int) -> str:
    """Answers when so many calls of `hang` have begun and were cancelled."""
    while hung != {"began": began, "cancelled": cancelled}:
        await changed.wait()
    return "so it is"


@mcp.tool
def process_id() -> int:
    """Who serves."""
    return os.getpid()


@mcp.resource("rope://manila", mime_type="text/plain")
def manila() -> str:
    """Words."""
    return "abaca fiber"


@mcp.resource("rope://picture", mime_type="image/png")
def picture() -> bytes:
    """Bytes."""
    return b"\x00\x01\x02"


@mcp.resource("rope://length/{meters}")
def length(meters: str) -> str:
    """A template."""
    return f"{meters} m of rope"


@mcp.prompt
def splice(rope: str, strands: int = 3) -> str:
    """One argument is required, one is not."""
    return f"Splice {rope}, {strands} strands"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            mcp.run(transport="stdio", show_banner=False)
        case ["http", port]:
            mcp.run(transport="http", host="127.0.0.1", port=int(port), path="/mcp", show_banner=False)
        case other:
            sys.exit(f"stdio, or http PORT; not {other}")
