// The protocol between a test and a script: one line of JSON each way, one at a time. The script
// ends with its stdin.

import { createInterface } from 'node:readline';
import { inspect } from 'node:util';

// Packages may write to the console; stdout is reserved for the protocol.
console.log = console.info = console.error;

export function tell(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

export async function serveLines(commands) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, ...args } = JSON.parse(line);
    try {
      tell({ ok: (await commands[name](args)) ?? null });
    } catch (error) {
      tell({ error: inspect(error) });
    }
  }
  process.exit(0);
}
