// `oidc-provider` as authorization server, with its own login pages. It records its requests and
// its errors.

import { createServer } from 'node:http';
import { generateKeyPairSync, randomBytes } from 'node:crypto';

import { packagesIn } from './packages.mjs';

const { default: Provider } = await packagesIn('BOWLINE_NODE_MODULES')('oidc-provider');

// The client that may introspect tokens: the MCP server.
export const ASKER = { client_id: 'resource-server', client_secret: randomBytes(24).toString('hex') };
// Clients for the client credentials grant: one with a secret that must be escaped, one with a key.
const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const OWN = { redirect_uris: [], response_types: [], grant_types: ['client_credentials'] };
const WITH_SECRET = { ...OWN, client_id: 'bot: 1', client_secret: 'a+b%20c:d /~&="' };
const WITH_KEY = {
  ...OWN,
  client_id: 'signer',
  token_endpoint_auth_method: 'private_key_jwt',
  jwks: { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig', alg: 'ES256' }] },
};
// Preregistered clients for people: one for each client authentication method.
const BY_HAND = { redirect_uris: ['http://127.0.0.1/callback'], application_type: 'native', grant_types: ['authorization_code', 'refresh_token'] };
const PEOPLES = [
  { client_id: 'by none', token_endpoint_auth_method: 'none' },
  { client_id: 'by basic', client_secret: WITH_SECRET.client_secret, token_endpoint_auth_method: 'client_secret_basic' },
  { client_id: 'by post', client_secret: WITH_SECRET.client_secret, token_endpoint_auth_method: 'client_secret_post' },
  { client_id: 'by key', token_endpoint_auth_method: 'private_key_jwt', jwks: WITH_KEY.jwks },
].map((client) => ({ ...BY_HAND, ...client }));
export const MACHINES = {
  secret: WITH_SECRET.client_secret,
  key: privateKey.export({ format: 'pem', type: 'pkcs8' }),
};

// `lifetime`: of access tokens, in seconds. `nonces`: whether proofs need one. `method`: the only
// client authentication method, for clients that register dynamically.
export async function startIssuer({ lifetime, nonces, method }) {
  const server = createServer();
  const issuer = await listen(server);
  const [requests, complaints, spent] = [[], [], []];
  const documents = new Map();
  const provider = new Provider(issuer, {
    scopes: ['openid', 'offline_access', 'docs:read', 'docs:write'],
    clients: [
      { ...ASKER, redirect_uris: [], response_types: [], grant_types: [], ...(method && { token_endpoint_auth_method: method }) },
      ...(method ? [] : [WITH_SECRET, WITH_KEY, ...PEOPLES]),
    ],
    ...(method && { clientAuthMethods: [method] }),
    // Client metadata documents are not fetched from the network.
    fetch: async (url) => new Response(documents.get(String(url)), { status: documents.has(String(url)) ? 200 : 404 }),
    cookies: { keys: [randomBytes(16).toString('hex')] },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    features: {
      clientCredentials: { enabled: true },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
      deviceFlow: { enabled: true },
      dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => nonces },
      introspection: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope: 'docs:read docs:write',
          audience: resource,
          accessTokenTTL: lifetime,
          // One server verifies tokens itself, the others introspect them.
          accessTokenFormat: resource.endsWith('/fast') ? 'jwt' : 'opaque',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
      revocation: { enabled: true },
    },
  });

  provider.use(async (ctx, next) => {
    await next();
    const { oidc } = ctx;
    // Requests of the browser and of the MCP server are not recorded as a client's.
    if (!oidc?.route || oidc.client?.clientId === ASKER.client_id) return;
    const params = Object.fromEntries(Object.entries(oidc.params ?? {}).filter(([, value]) => value !== undefined));
    if (params.refresh_token && ctx.status === 200) spent.push({ ...params });
    const secret = ['token', 'refresh_token', 'code', 'code_verifier', 'device_code', 'client_secret'];
    for (const name of secret) if (params[name]) params[name] = true;
    requests.push({ route: oidc.route, status: ctx.status, params, body: registered(oidc, ctx) });
  });
  for (const event of ERRORS) {
    provider.on(`${event}.error`, (_ctx, error) => {
      complaints.push({ event, error: error.error, why: error.error_description, detail: error.error_detail });
    });
  }
  provider.on('server_error', (_ctx, error) => complaints.push({ event: 'server', error: String(error.stack) }));
  let revoked = 0;
  provider.on('grant.revoked', () => { revoked += 1; });
  server.on('request', provider.callback());

  return {
    url: issuer,
    provider,
    record: () => ({ requests, complaints, revoked }),
    // Invalidates all access tokens, as if they had expired.
    async end(tokens) {
      for (const token of tokens) await (await provider.AccessToken.find(token))?.destroy();
    },
    // Uses a spent refresh token as an attacker would.
    async replay() {
      const answer = await fetch(`${issuer}/token`, { method: 'POST', body: new URLSearchParams(spent[0]) });
      return answer.json();
    },
    // Deletes the clients, like a server that keeps them in memory and restarts.
    async forget() {
      for (const { body } of requests) if (body?.given) await provider.Client.adapter.destroy(body.given.client_id);
    },
    publish: ({ url, text }) => { documents.set(url, text); },
  };
}

const ERRORS = ['authorization', 'code_verification', 'device_authorization', 'device_resume', 'discovery', 'grant',
  'introspection', 'jwks', 'registration_create', 'registration_read', 'revocation', 'userinfo'];

function registered(oidc, ctx) {
  if (oidc.route !== 'registration') return undefined;
  const { client_secret: _, registration_access_token: __, ...body } = ctx.body ?? {};
  return { asked: oidc.body, given: body };
}

// Listens on a port that the kernel chooses.
export async function listen(server) {
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${server.address().port}`;
}
