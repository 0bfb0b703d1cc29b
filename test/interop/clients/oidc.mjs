// An OpenID provider on loopback, for the length of its standard input. It prints its
// issuer URL once it serves, and does what it is told by lines: rotate (it signs with
// new keys and publishes only those), down (it hangs up on everybody) and up. It answers
// each with the same line.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

console.info = console.warn; // the standard output is ours

const secret = process.env.OIDC_SECRET;
const resources = {
  'https://jwt.example.com': { accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } },
  'https://opaque.example.com': { accessTokenFormat: 'opaque' },
};

function newKey(type, alg, options) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg, use: 'sig' };
}

const client = { redirect_uris: [], response_types: [] };
const machine = { ...client, client_secret: secret, token_endpoint_auth_method: 'client_secret_basic' };

function newProvider(issuer) {
  const provider = new Provider(issuer, {
    jwks: {
      keys: [newKey('rsa', 'RS256', { modulusLength: 2048 }), newKey('ec', 'ES256', { namedCurve: 'P-256' }), newKey('ed25519', 'EdDSA')],
    },
    cookies: { keys: [secret] },
    clients: [
      { ...machine, client_id: 'machine', grant_types: ['client_credentials'] },
      { ...machine, client_id: 'ghostline-issuer', grant_types: [] },
      {
        ...client,
        client_id: 'ghostline',
        token_endpoint_auth_method: 'none',
        grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
      },
    ],
    claims: { openid: ['sub', 'email_verified', 'groups'] },
    conformIdTokenClaims: false,
    findAccount: (ctx, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email_verified: id !== 'unverified', groups: ['/Acme/Core'] }),
    }),
    // A machine is its own subject. JWTs have that by RFC 9068.
    extraTokenClaims: (ctx, token) => (token.kind === 'ClientCredentials' ? { sub: token.clientId } : undefined),
    features: {
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, resource) => ({ scope: 'complete', audience: resource, accessTokenTTL: 600, ...resources[resource] }),
      },
    },
    ttl: { IdToken: 600, Session: 600, Interaction: 600, Grant: 600, DeviceCode: 600 },
  });
  return provider.callback();
}

let down = false;
let handle;
const server = createServer((req, res) => (down ? req.socket.destroy() : handle(req, res)));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const told = {
    rotate: () => { handle = newProvider(issuer); },
    down: () => { down = true; },
    up: () => { down = false; },
  };
  told.rotate();
  console.log(issuer);
  createInterface({ input: process.stdin })
    .on('line', (line) => {
      told[line]();
      console.log(line);
    })
    .on('close', () => process.exit());
});
