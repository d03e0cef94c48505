// Protected MCP servers of the TypeScript SDK: `/mcp` with the SDK's middleware, `/dpop` with
// proofs as well. Both introspect every token at the authorization server.

import { createHash, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { ASKER, listen } from './issuer.mjs';
import { packagesIn } from './packages.mjs';

const load = packagesIn('BOWLINE_NODE_MODULES');
const { default: express } = await load('express');
const { calculateJwkThumbprint, EmbeddedJWK, jwtVerify } = await load('jose');
const { z } = await load('zod');
const { InvalidTokenError } = await load('@modelcontextprotocol/sdk/server/auth/errors.js');
const { requireBearerAuth } = await load('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js');
const { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } = await load('@modelcontextprotocol/sdk/server/auth/router.js');
const { McpServer } = await load('@modelcontextprotocol/sdk/server/mcp.js');
const { StreamableHTTPServerTransport } = await load('@modelcontextprotocol/sdk/server/streamableHttp.js');

export async function startResource(issuer) {
  const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
  const server = createServer();
  const origin = await listen(server);
  const shown = [];
  const app = express();
  app.use((req, res, next) => {
    res.on('finish', () => shown.push({
      path: req.originalUrl, method: req.method, status: res.statusCode, scheme: req.headers.authorization?.split(' ')[0] ?? null,
    }));
    next();
  });
  app.use(express.json());

  const tokens = new Set();
  const verifier = { verifyAccessToken: (token) => (tokens.add(token), verify(metadata, token)) };
  const mcp = new URL('/mcp', origin);
  app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: mcp, scopesSupported: ['docs:read'] }));
  const bearer = (requiredScopes) => requireBearerAuth({
    verifier, requiredScopes, expectedResource: mcp, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(mcp),
  });
  const [reads, writes] = [bearer(['docs:read']), bearer(['docs:read', 'docs:write'])];
  const isWrite = ({ body }) => body?.method === 'tools/call' && body.params?.name === 'write';
  app.all('/mcp', (req, res, next) => (isWrite(req) ? writes : reads)(req, res, next), sessions());

  const dpop = new URL('/dpop', origin);
  app.get('/.well-known/oauth-protected-resource/dpop', (_req, res) => res.json({
    resource: dpop.href, authorization_servers: [metadata.issuer], scopes_supported: ['docs:read'], dpop_bound_access_tokens_required: true,
  }));
  app.all('/dpop', proofs({ verifier, resource: dpop }), sessions());

  server.on('request', app);
  return { mcp: mcp.href, dpop: dpop.href, shown, tokens: () => [...tokens], verify: verifier.verifyAccessToken };
}

// Introspects a token at the authorization server (RFC 7662).
async function verify(metadata, token) {
  const { client_id: id, client_secret: secret } = ASKER;
  const basic = metadata.token_endpoint_auth_methods_supported.includes('client_secret_basic');
  const answer = await fetch(metadata.introspection_endpoint, {
    method: 'POST',
    headers: basic ? { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` } : {},
    body: new URLSearchParams({ token, ...(basic ? {} : ASKER) }),
  });
  const said = await answer.json();
  if (!said.active || said.iss !== metadata.issuer) throw new InvalidTokenError('Token is not active');
  return {
    token,
    clientId: said.client_id,
    scopes: said.scope?.split(' ') ?? [],
    expiresAt: said.exp,
    resource: new URL(said.aud),
    extra: { sub: said.sub ?? said.client_id, cnf: said.cnf, type: said.token_type },
  };
}

// RFC 9449, section 7: a token that is bound to a key is valid only with a new proof by that key.
function proofs({ verifier, resource }) {
  const nonce = randomUUID();
  const used = new Set();
  const check = async (req) => {
    const [scheme, token] = req.headers.authorization?.split(' ') ?? [];
    if (!token) return {};
    if (scheme !== 'DPoP') return { error: 'invalid_token', why: `scheme ${scheme}` };
    const { payload, protectedHeader } = await jwtVerify(req.headers.dpop ?? '', EmbeddedJWK, {
      typ: 'dpop+jwt', algorithms: ['ES256'], maxTokenAge: 60, requiredClaims: ['jti', 'htm', 'htu', 'ath'],
    });
    if (payload.nonce !== nonce) return { error: 'use_dpop_nonce', why: 'nonce' };
    const ath = createHash('sha256').update(token).digest('base64url');
    if (payload.htm !== req.method || payload.htu !== resource.href || payload.ath !== ath) {
      return { error: 'invalid_dpop_proof', why: 'it is for something else' };
    }
    if (used.has(payload.jti)) return { error: 'invalid_dpop_proof', why: 'it was used before' };
    used.add(payload.jti);
    const info = await verifier.verifyAccessToken(token);
    if (info.resource.href !== resource.href) return { error: 'invalid_token', why: 'it is for somebody else' };
    const thumbprint = await calculateJwkThumbprint(protectedHeader.jwk);
    if (info.extra.cnf?.jkt !== thumbprint) return { error: 'invalid_token', why: 'it is bound to another key' };
    return { info };
  };
  return async (req, res, next) => {
    const { info, error, why } = await check(req).catch((failure) => ({ error: 'invalid_token', why: String(failure) }));
    res.set('DPoP-Nonce', nonce);
    if (info) {
      req.auth = info;
      next();
      return;
    }
    const found = getOAuthProtectedResourceMetadataUrl(resource);
    const said = error ? `, error="${error}", error_description="${why.replace(/["\\]/g, '')}"` : '';
    res.set('WWW-Authenticate', `DPoP algs="ES256", resource_metadata="${found}"${said}`).status(401).json({ error, why });
  };
}

// One transport for each session, as in the examples of the SDK.
export function sessions() {
  const open = new Map();
  return async (req, res) => {
    const known = open.get(req.headers['mcp-session-id']);
    if (known) {
      await known.handleRequest(req, res, req.body);
      return;
    }
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => open.set(id, transport),
      onsessionclosed: (id) => open.delete(id),
    });
    await tools().connect(transport);
    await transport.handleRequest(req, res, req.body);
  };
}

function tools() {
  const server = new McpServer({ name: 'guarded', version: '1.0.0' });
  const text = (value) => ({ content: [{ type: 'text', text: value }] });
  server.registerTool('whoami', { description: 'Who is asking' }, ({ authInfo }) => text(String(authInfo.extra.sub)));
  const message = { inputSchema: { message: z.string() } };
  server.registerTool('echo', { description: 'Says it again', ...message }, (args) => text(args.message));
  server.registerTool('write', { description: 'Needs more rights', ...message }, (args, { authInfo }) =>
    text(`${authInfo.extra.sub} wrote ${args.message}`));
  return server;
}
