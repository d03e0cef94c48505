// How a test speaks to a script: a line of JSON each way, one at a time. The end of stdin is the end of the script.

import { createInterface } from 'node:readline';
import { inspect } from 'node:util';

// Packages write to the console as they like; stdout is ours.
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
