"""The Python leg. Argument: the job as JSON.

Prints one sample as a line of JSON; `src/job.rs` describes both shapes.
"""

import asyncio
import gc
import json
import math
import os
import resource
import sys
import time
from contextlib import AsyncExitStack

from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client


def connect(endpoint):
    """The client as it comes: whichever protocol era it chooses by default."""
    if "http" in endpoint:
        return Client(endpoint["http"])
    command, *args = endpoint["stdio"]
    return Client(StdioServerParameters(command=command, args=args))


async def call(client, size):
    result = await client.call_tool("payload", {"bytes": size})
    received = len(result.content[0].text)
    if received != size:
        raise RuntimeError(f"a text of {received} bytes, expected {size}")


async def list_tools(client, expected):
    """The complete list: pages are the caller's business in this client."""
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools.extend(page.tools)
    if len(tools) != expected:
        raise RuntimeError(f"a list of {len(tools)} tools, expected {expected}")
    return tools


async def stretch(lanes, seconds, max_calls, work):
    """Keeps one call of every lane in flight until time or calls run out."""
    latencies = []
    deadline = time.perf_counter() + seconds
    started = 0

    async def lane():
        nonlocal started
        now = time.perf_counter()
        while now < deadline and started < max_calls:
            started += 1
            await work()
            end = time.perf_counter()
            latencies.append((end - now) * 1e6)
            now = end

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return latencies


async def drive(client, lanes, limits, work):
    await stretch(lanes, limits["warmup"], limits["max_calls"] // 4 + 1, work)
    watch = Stopwatch()
    latencies = await stretch(lanes, limits["seconds"], limits["max_calls"], work)
    lap = watch.stop()
    latencies.sort()

    def quantile(q):
        return latencies[max(0, math.ceil(len(latencies) * q) - 1)]

    return lap | {
        "calls": len(latencies),
        "p50_us": quantile(0.5),
        "p99_us": quantile(0.99),
        "revision": client.protocol_version,
    }


class Stopwatch:
    def __init__(self):
        self.cpu = cpu_seconds()
        self.wall = time.perf_counter()

    def stop(self):
        seconds = time.perf_counter() - self.wall
        return {"seconds": seconds, "cpu_seconds": cpu_seconds() - self.cpu}


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory(field):
    """Linux only, like the Rust legs: None elsewhere."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


async def perform(job, stack):
    kind = job["kind"]
    if kind == "calls":
        client = await stack.enter_async_context(connect(job["endpoint"]))
        return await drive(client, job["lanes"], job["limits"], lambda: call(client, job["bytes"]))
    if kind == "lists":
        client = await stack.enter_async_context(connect({"http": job["url"]}))
        return await drive(client, 1, job["limits"], lambda: list_tools(client, job["tools"]))
    if kind == "startup":
        return await startup(job)
    if kind == "memory":
        clients = [await stack.enter_async_context(connect({"http": url})) for url in job["urls"]]
        gc.collect()
        before = memory("VmRSS:")
        watch = Stopwatch()
        held = [await list_tools(client, job["tools"]) for client in clients]
        lap = watch.stop()
        # What is garbage by now is no cost of holding.
        gc.collect()
        after = memory("VmRSS:")
        grown = None if after is None else max(0, after - before) / len(held)
        revision = clients[0].protocol_version
        return lap | {"calls": len(held), "bytes_per_list": grown, "revision": revision}
    raise RuntimeError(f"no job {kind}")


async def startup(job):
    """Every connection lives in a task of its own: this client's scopes may not cross tasks."""
    release = asyncio.Event()
    ready = asyncio.Queue()

    async def server(url):
        try:
            async with connect({"http": url}) as client:
                tools = await list_tools(client, job["tools"])
                ready.put_nowait((client.protocol_version, tools))
                await release.wait()
        except Exception as error:
            ready.put_nowait(error)

    watch = Stopwatch()
    tasks = [asyncio.create_task(server(url)) for url in job["urls"]]
    held = []
    for _ in tasks:
        outcome = await ready.get()
        if isinstance(outcome, Exception):
            raise outcome
        held.append(outcome)
    return watch.stop() | {"calls": len(held), "revision": held[0][0]}


async def steady(job):
    """Starts a call at every tick, whatever became of those before, and tells how each ended.

    The client as it comes: nothing is done for the connection. It lives in a task of its own, which it cancels
    when its transport fails.
    """
    release = asyncio.Event()
    ready = asyncio.get_running_loop().create_future()

    async def hold():
        try:
            async with Client(sse_client(job["url"]) if job["sse"] else job["url"]) as client:
                await client.list_tools()
                ready.set_result(client)
                await release.wait()
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            if not ready.done():
                ready.set_exception(RuntimeError(str(error) or type(error).__name__))

    holder = asyncio.create_task(hold())
    client = await ready
    revision = client.protocol_version
    print("ready", flush=True)

    async def one():
        started = time.time()
        failure = None
        try:
            call = client.call_tool(job["tool"], job["arguments"])
            result = await asyncio.wait_for(call, job["limit"])
            if result.is_error:
                failure = "an error as the result"
        except asyncio.TimeoutError:
            failure = f"no outcome within {job['limit']:.0f} s"
        except BaseException as error:
            failure = str(error) or type(error).__name__
        return [started, time.time(), failure]

    begun = time.perf_counter()
    calls = []
    for number in range(job["calls"]):
        await asyncio.sleep(max(0, begun + number * job["every"] - time.perf_counter()))
        calls.append(asyncio.create_task(one()))
    account = {"revision": revision, "calls": await asyncio.gather(*calls)}
    del holder
    return account


async def main():
    job = json.loads(sys.argv[1])
    if job["kind"] == "steady":
        print(json.dumps(await steady(job)), flush=True)
        os._exit(0)
    async with AsyncExitStack() as stack:
        sample = await perform(job, stack)
        sample["peak_rss"] = memory("VmHWM:")
        print(json.dumps(sample), flush=True)
        # Closing down is not measured, and may not hold up the run. The server's pipes close with us.
        os._exit(0)


asyncio.run(main())
