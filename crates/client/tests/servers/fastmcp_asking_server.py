"""A server made with FastMCP that asks its clients, for the interop tests: `fastmcp_asking_server.py stdio`, or
`fastmcp_asking_server.py http PORT`. Each question is asked in the way of the era."""

import sys

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from mcp_types import InputRequiredResult

# Whatever is listed or read may be kept for a minute.
mcp = FastMCP("riggers", version="3.2.1", cache_ttl=60, cache_scope="private")
NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
listed = 0
read = 0


class Count(Middleware):
    async def on_list_tools(self, context, call_next):
        global listed
        listed += 1
        return await call_next(context)


mcp.add_middleware(Count())


def form(message: str) -> mcp_types.ElicitRequest:
    return mcp_types.ElicitRequest(params=mcp_types.ElicitRequestFormParams(message=message, requested_schema=NAME))


def question(text: str) -> mcp_types.SamplingMessage:
    return mcp_types.SamplingMessage(role="user", content=mcp_types.TextContent(type="text", text=text))


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version >= "2026-07-28"


def told(name: str, roots: list, advice: str, knot: str) -> str:
    return f"{name}, in {' and '.join(root.name or '?' for root in roots)}: {advice} ({knot})"


@mcp.tool
async def interview(ctx: Context) -> str | InputRequiredResult:
    """A person, a model and the folders, and then the person once more."""
    if not is_modern(ctx):
        # FastMCP wraps only forms; the rest is the session's.
        who = await ctx.session.elicit_form("Who?", NAME, ctx.request_id)
        advice = await ctx.session.create_message([question("Which knot?")], max_tokens=9, related_request_id=ctx.request_id)
        roots = await ctx.session.list_roots()
        knot = await ctx.session.elicit_form("What knot?", NAME, ctx.request_id)
        return told(who.content["name"], roots.roots, advice.content.text, knot.content["name"])
    responses = ctx.input_responses
    if responses is None:
        params = mcp_types.CreateMessageRequestParams(messages=[question("Which knot?")], max_tokens=9)
        requests = {
            "who": form("Who?"),
            "model": mcp_types.CreateMessageRequest(params=params),
            "where": mcp_types.ListRootsRequest(),
        }
        return InputRequiredResult(input_requests=requests, request_state="first")
    if "knot" not in responses:
        if ctx.request_state != "first":
            raise ToolError(f"the state came back as {ctx.request_state!r}")
        who, advice, where = responses["who"], responses["model"], responses["where"]
        kept = told(who.content["name"], where.roots, advice.content.text, "{}")
        return InputRequiredResult(input_requests={"knot": form("What knot?")}, request_state=kept)
    if set(responses) != {"knot"}:
        raise ToolError(f"answers of another round: {sorted(responses)}")
    return ctx.request_state.replace("{}", responses["knot"].content["name"])


@mcp.tool
async def visit(url: str, ctx: Context) -> str | InputRequiredResult:
    """A page."""
    if not is_modern(ctx):
        return (await ctx.session.elicit_url("Go there.", url, "page-1", ctx.request_id)).action
    if ctx.input_responses is None:
        params = mcp_types.ElicitRequestURLParams(message="Go there.", url=url)
        return InputRequiredResult(input_requests={"page": mcp_types.ElicitRequest(params=params)})
    return ctx.input_responses["page"].action


@mcp.tool
async def mumble(ctx: Context) -> str:
    """Says four things, each more serious than the one before."""
    for level in ("debug", "info", "warning", "error"):
        await ctx.log(level, level=level)
    return "mumbled"


@mcp.tool
def asked() -> list[int]:
    """How often the tools were listed, and the plain resource was read."""
    return [listed, read]


@mcp.resource("rig://plain")
def plain() -> str:
    """Costs nothing."""
    global read
    read += 1
    return f"read {read}"


@mcp.resource("rig://secret")
async def secret(ctx: Context) -> str | InputRequiredResult:
    """Asks who reads it."""
    if is_modern(ctx) and ctx.input_responses is None:
        return InputRequiredResult(input_requests={"who": form("Who reads?")})
    return "told" if not is_modern(ctx) else f"told {ctx.input_responses['who'].content['name']}"


@mcp.resource("rig://mast/{height}")
def mast(height: str) -> str:
    """A template."""
    return f"{height} m"


@mcp.prompt
async def teach(fiber: str, knot: str, ctx: Context) -> str | InputRequiredResult:
    """Asks who is taught."""
    if is_modern(ctx) and ctx.input_responses is None:
        return InputRequiredResult(input_requests={"who": form("Who learns?")})
    who = ctx.input_responses["who"].content["name"] if is_modern(ctx) else "me"
    return f"Teach {who} a {knot} in {fiber}"


@mcp.completion
def complete(ref, argument, context) -> list[str]:
    chosen = (context.arguments or {}) if context else {}
    known = {"fiber": ["hemp", "nylon"], "height": ["12", "15"]}
    known["knot"] = ["zeppelin bend"] if chosen.get("fiber") == "nylon" else ["bowline", "sheet bend"]
    return [value for value in known.get(argument.name, []) if value.startswith(argument.value)]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            mcp.run(transport="stdio", show_banner=False)
        case ["http", port]:
            mcp.run(transport="http", host="127.0.0.1", port=int(port), path="/mcp", show_banner=False)
        case other:
            sys.exit(f"stdio, or http PORT; not {other}")
