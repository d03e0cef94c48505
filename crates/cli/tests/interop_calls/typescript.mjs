// A client made with the TypeScript SDK, which makes the calls that it reads from stdin, one after the other.
//
// Arguments: `1` or `2` for the generation of the SDK, the folder whose node_modules has it, and the target as
// JSON: `{"url", "headers"}` or `{"command", "args"}`. Each line of stdin is `{"tool", "arguments"}`. Each line of
// stdout is JSON: first `{"revision", "tools"}`, then `{"text"}` or `{"error"}` for each call.

import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const [generation, folder, targetText] = process.argv.slice(2);
const require = createRequire(join(resolve(folder), 'package.json'));
const target = JSON.parse(targetText);

function load() {
    if (generation === '2') {
        return { ...require('@modelcontextprotocol/client'), ...require('@modelcontextprotocol/client/stdio') };
    }
    return {
        ...require('@modelcontextprotocol/sdk/client/index.js'),
        ...require('@modelcontextprotocol/sdk/client/stdio.js'),
        ...require('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    };
}

const sdk = load();
const transport = target.url
    ? new sdk.StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers: target.headers } })
    : new sdk.StdioClientTransport({ command: target.command, args: target.args, env: process.env, stderr: 'inherit' });

// Some failures of the connection reach nobody who waits. They are told, and end nothing.
process.on('unhandledRejection', (error) => console.error(`unhandled: ${error}`));
const client = new sdk.Client({ name: `typescript-${generation}`, version: '0' });
client.onerror = (error) => console.error(`onerror: ${error}`);
await client.connect(transport);

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const revision = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? null;
const { tools } = await client.listTools();
print({ revision, tools: tools.map((tool) => tool.name) });

for await (const line of createInterface({ input: process.stdin })) {
    const call = JSON.parse(line);
    try {
        const result = await client.callTool({ name: call.tool, arguments: call.arguments });
        const text = result.content[0].text;
        print(result.isError ? { error: text } : { text });
    } catch (error) {
        print({ error: String(error.message || error) });
    }
}
await client.close();
process.exit(0);
