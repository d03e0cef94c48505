// An authorization server that others wrote, with its own pages for a person. It writes down what it was asked for
// and everything that it did not like.

import { createServer } from 'node:http';
import { randomBytes } from 'node:crypto';

import { packagesIn } from './packages.mjs';

const { default: Provider } = await packagesIn('BOWLINE_NODE_MODULES')('oidc-provider');

// Which client may ask about tokens: the MCP server.
export const ASKER = { client_id: 'resource-server', client_secret: randomBytes(24).toString('hex') };

// `lifetime`: of access tokens, in seconds. `nonces`: whether proofs need one.
export async function startIssuer({ lifetime, nonces }) {
  const server = createServer();
  const issuer = await listen(server);
  const [requests, complaints] = [[], []];
  const provider = new Provider(issuer, {
    scopes: ['openid', 'offline_access', 'docs:read', 'docs:write'],
    clients: [{ ...ASKER, redirect_uris: [], response_types: [], grant_types: [] }],
    cookies: { keys: [randomBytes(16).toString('hex')] },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    features: {
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
          // One of them reads tokens by itself, the others ask about them.
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
    // What a browser or the MCP server asks for is not what a client does.
    if (!oidc?.route || oidc.client?.clientId === ASKER.client_id) return;
    const params = Object.fromEntries(Object.entries(oidc.params ?? {}).filter(([, value]) => value !== undefined));
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
    // Nobody can use an access token any more, as when its time is over.
    async end(tokens) {
      for (const token of tokens) await (await provider.AccessToken.find(token))?.destroy();
    },
  };
}

const ERRORS = ['authorization', 'code_verification', 'device_authorization', 'device_resume', 'discovery', 'grant',
  'introspection', 'jwks', 'registration_create', 'registration_read', 'revocation', 'userinfo'];

function registered(oidc, ctx) {
  if (oidc.route !== 'registration') return undefined;
  const { client_secret: _, registration_access_token: __, ...body } = ctx.body ?? {};
  return { asked: oidc.body, given: body };
}

// On a port that the kernel chooses.
export async function listen(server) {
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${server.address().port}`;
}
