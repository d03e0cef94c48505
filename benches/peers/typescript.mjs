// The TypeScript leg. Arguments: the folder whose node_modules holds the client, and the job as JSON.
// Prints one sample as a line of JSON; `src/job.rs` describes both shapes.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const [folder, jobText] = process.argv.slice(2);
const require = createRequire(join(resolve(folder), 'package.json'));
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

// The client as it comes: whichever protocol era it chooses by default.
async function connect(endpoint) {
    const client = new Client({ name: 'bowline-bench', version: '0' });
    const transport = endpoint.http
        ? new StreamableHTTPClientTransport(new URL(endpoint.http))
        : new StdioClientTransport({ command: endpoint.stdio[0], args: endpoint.stdio.slice(1) });
    await client.connect(transport);
    return client;
}

async function call(client, bytes) {
    const result = await client.callTool({ name: 'payload', arguments: { bytes } });
    const received = result.content[0].text.length;
    if (received !== bytes) throw new Error(`a text of ${received} bytes, expected ${bytes}`);
}

async function list(client, tools) {
    const found = (await client.listTools()).tools;
    if (found.length !== tools) throw new Error(`a list of ${found.length} tools, expected ${tools}`);
    return found;
}

// Starts a call at every tick, whatever became of those before, and tells how each ended. The client as it
// comes: nothing is done for the connection.
async function steady(job) {
    // Some failures reach nobody who waits; they are not what ends this stream.
    process.on('unhandledRejection', () => {});
    const client = new Client({ name: 'bowline-bench', version: '0' });
    const Transport = job.sse ? SSEClientTransport : StreamableHTTPClientTransport;
    await client.connect(new Transport(new URL(job.url)));
    await client.listTools();
    process.stdout.write('ready\n');
    const now = () => (performance.timeOrigin + performance.now()) / 1000;
    const one = async () => {
        const started = now();
        let timer;
        const limit = new Promise((_, reject) => {
            timer = setTimeout(() => reject(new Error(`no outcome within ${job.limit} s`)), job.limit * 1000);
        });
        let failure = null;
        try {
            const result = await Promise.race([client.callTool({ name: job.tool, arguments: job.arguments }), limit]);
            if (result.isError) failure = 'an error as the result';
        } catch (error) {
            failure = String(error.message || error);
        }
        clearTimeout(timer);
        return [started, now(), failure];
    };
    const begun = performance.now();
    const open = [];
    for (let number = 0; number < job.calls; number++) {
        const wait = begun + number * job.every * 1000 - performance.now();
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, wait)));
        open.push(one());
    }
    return { revision: client.getNegotiatedProtocolVersion(), calls: await Promise.all(open) };
}

// Keeps one call of every lane in flight until time or calls run out.
async function stretch(lanes, seconds, maxCalls, work) {
    const latencies = [];
    const deadline = performance.now() + seconds * 1000;
    let started = 0;
    const lane = async () => {
        let now = performance.now();
        while (now < deadline && started++ < maxCalls) {
            await work();
            const end = performance.now();
            latencies.push((end - now) * 1000);
            now = end;
        }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    return latencies;
}

async function drive(client, lanes, limits, work) {
    await stretch(lanes, limits.warmup, Math.floor(limits.max_calls / 4) + 1, work);
    const watch = stopwatch();
    const latencies = await stretch(lanes, limits.seconds, limits.max_calls, work);
    const lap = watch();
    latencies.sort((a, b) => a - b);
    const quantile = (q) => latencies[Math.max(0, Math.ceil(latencies.length * q) - 1)];
    return {
        ...lap,
        calls: latencies.length,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        revision: client.getNegotiatedProtocolVersion(),
    };
}

function stopwatch() {
    const cpu = process.cpuUsage();
    const wall = performance.now();
    return () => {
        const seconds = (performance.now() - wall) / 1000;
        const used = process.cpuUsage(cpu);
        return { seconds, cpu_seconds: (used.user + used.system) / 1e6 };
    };
}

// Linux only, like the Rust legs: null elsewhere.
function memory(field) {
    try {
        const line = readFileSync('/proc/self/status', 'utf8').split('\n').find((l) => l.startsWith(field));
        return Number.parseInt(line.slice(field.length), 10) * 1024;
    } catch {
        return null;
    }
}

async function perform(job) {
    switch (job.kind) {
        case 'calls': {
            const client = await connect(job.endpoint);
            return drive(client, job.lanes, job.limits, () => call(client, job.bytes));
        }
        case 'lists': {
            const client = await connect({ http: job.url });
            return drive(client, 1, job.limits, () => list(client, job.tools));
        }
        case 'startup': {
            const watch = stopwatch();
            const held = await Promise.all(
                job.urls.map(async (url) => {
                    const client = await connect({ http: url });
                    return { client, tools: await list(client, job.tools) };
                }),
            );
            return { ...watch(), calls: held.length, revision: held[0].client.getNegotiatedProtocolVersion() };
        }
        case 'memory': {
            const clients = [];
            for (const url of job.urls) clients.push(await connect({ http: url }));
            global.gc();
            const before = memory('VmRSS:');
            const watch = stopwatch();
            const held = [];
            for (const client of clients) held.push(await list(client, job.tools));
            const lap = watch();
            // What is garbage by now is no cost of holding.
            global.gc();
            const after = memory('VmRSS:');
            const grown = after === null ? null : Math.max(0, after - before) / held.length;
            const revision = clients[0].getNegotiatedProtocolVersion();
            return { ...lap, calls: held.length, bytes_per_list: grown, revision };
        }
        case 'steady':
            return steady(job);
        default:
            throw new Error(`no job ${job.kind}`);
    }
}

const sample = await perform(JSON.parse(jobText));
// Closing down is not measured.
process.stdout.write(`${JSON.stringify({ ...sample, peak_rss: memory('VmHWM:') })}\n`, () => process.exit(0));
