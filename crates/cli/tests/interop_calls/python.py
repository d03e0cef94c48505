"""A client made with the Python SDK or with FastMCP, which makes the calls that it reads from stdin.

Arguments: `1`, `2` or `fastmcp` for the library, and the target as JSON: `{"url", "headers"}` or
`{"command", "args"}`. Each line of stdin is `{"tool", "arguments"}`. Each line of stdout is JSON: first
`{"revision", "tools"}`, then `{"text"}` or `{"error"}` for each call.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager


@asynccontextmanager
async def connect_1(target):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    if "url" in target:
        http = create_mcp_http_client(headers=target["headers"])
        streams = streamable_http_client(target["url"], http_client=http)
    else:
        command = StdioServerParameters(command=target["command"], args=target["args"], env=dict(os.environ))
        streams = stdio_client(command)
    async with streams as (read, write, *_), ClientSession(read, write) as session:
        initialized = await session.initialize()
        yield session, initialized.protocolVersion


@asynccontextmanager
async def connect_2(target):
    from mcp import Client, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    if "url" in target:
        http = create_mcp_http_client(headers=target["headers"])
        server = streamable_http_client(target["url"], http_client=http)
    else:
        server = StdioServerParameters(command=target["command"], args=target["args"], env=dict(os.environ))
    async with Client(server) as client:
        yield client, client.protocol_version


@asynccontextmanager
async def connect_fastmcp(target):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    if "url" in target:
        transport = StreamableHttpTransport(target["url"], headers=target["headers"])
    else:
        transport = StdioTransport(target["command"], target["args"], env=dict(os.environ))
    async with Client(transport) as client:
        yield client, client.protocol_version


def names(listed):
    return [tool.name for tool in getattr(listed, "tools", listed)]


async def main():
    library, target = sys.argv[1], json.loads(sys.argv[2])
    connect = {"1": connect_1, "2": connect_2, "fastmcp": connect_fastmcp}[library]
    print_line = lambda value: print(json.dumps(value), flush=True)
    loop = asyncio.get_running_loop()
    async with connect(target) as (client, revision):
        print_line({"revision": revision, "tools": names(await client.list_tools())})
        # A thread reads stdin: this loop has to serve the connection meanwhile.
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            call = json.loads(line)
            try:
                result = await client.call_tool(call["tool"], call["arguments"])
                text = result.content[0].text
                failed = getattr(result, "isError", None) or getattr(result, "is_error", None)
                print_line({"error": text} if failed else {"text": text})
            except Exception as error:
                print_line({"error": f"{type(error).__name__}: {error}"})


asyncio.run(main())
