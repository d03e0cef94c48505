// An MCP server of the TypeScript SDK that issues its own tokens, with the SDK's router and demo
// provider. `clients`: the preregistered ones, each with `id` and optionally `secret`. `offers`:
// the client authentication methods in its metadata, in place of the SDK's own.

import { createServer } from 'node:http';

import { listen } from './issuer.mjs';
import { serveLines, tell } from './lines.mjs';
import { packagesIn } from './packages.mjs';
import { sessions } from './resource.mjs';

const load = packagesIn('BOWLINE_NODE_MODULES');
const { default: express } = await load('express');
const { requireBearerAuth } = await load('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js');
const { createOAuthMetadata, getOAuthProtectedResourceMetadataUrl, mcpAuthRouter } =
  await load('@modelcontextprotocol/sdk/server/auth/router.js');
const { DemoInMemoryAuthProvider } = await load('@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js');

const { clients, offers } = JSON.parse(process.argv[2]);
const server = createServer();
const origin = await listen(server);
const [provider, record, mcp] = [new DemoInMemoryAuthProvider(), [], new URL('/mcp', origin)];
for (const { id, secret } of clients) {
  provider.clientsStore.clients.set(id, {
    client_id: id,
    client_secret: secret,
    // Registered for every loopback port.
    redirect_uris: Object.assign(['http://127.0.0.1/callback'], { includes: () => true }),
  });
}
const app = express();
app.use(['/token', '/register'], express.urlencoded({ extended: false }), (req, res, next) => {
  res.on('finish', () => record.push({
    path: req.baseUrl,
    basic: req.headers.authorization?.startsWith('Basic ') ?? false,
    grant: req.body?.grant_type ?? null,
    fields: Object.keys(req.body ?? {}).filter((name) => name.startsWith('client_') && req.baseUrl === '/token'),
    status: res.statusCode,
  }));
  next();
});
const router = { provider, issuerUrl: new URL(origin), resourceServerUrl: mcp };
if (offers) {
  const metadata = { ...createOAuthMetadata(router), token_endpoint_auth_methods_supported: offers };
  app.get('/.well-known/oauth-authorization-server', (_req, res) => res.json(metadata));
}
app.use(mcpAuthRouter(router));
app.use(express.json());
app.all('/mcp', requireBearerAuth({ verifier: provider, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(mcp) }), sessions());
server.on('request', app);
tell({ mcp: mcp.href });
await serveLines({ record: () => record, good: () => provider.tokens.size });
