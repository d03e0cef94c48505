// An authorization server and the MCP servers that it protects, for one test.

import { MACHINES, startIssuer } from './issuer.mjs';
import { serveLines, tell } from './lines.mjs';
import { startResource } from './resource.mjs';

const issuer = await startIssuer(JSON.parse(process.argv[2]));
const resource = await startResource(issuer.url);
tell({ issuer: issuer.url, mcp: resource.mcp, dpop: resource.dpop, machines: MACHINES });
await serveLines({
  record: () => ({ ...issuer.record(), shown: resource.shown }),
  // Invalidates the access tokens that were used so far.
  end: () => issuer.end(resource.tokens()),
  replay: issuer.replay,
  forget: issuer.forget,
  publish: issuer.publish,
  // Returns which of the access tokens used so far are valid.
  good: async () => {
    const asked = resource.tokens().map((token) => resource.verify(token).then(() => true, () => false));
    return (await Promise.all(asked)).filter(Boolean).length;
  },
});
