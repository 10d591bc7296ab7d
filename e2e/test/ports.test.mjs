// Who knows nothing but ports can change nothing.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { start } from '../harness.mjs';

let s;
before(async () => {
  s = await start();
  await s.raise('L2');
});
after(() => s?.close());

const changes = [
  ['POST', '/v1/levels', { action: 'lower', scope: 'fleet', level: 'L0', reason: 'x', seen: 99 }],
  ['POST', '/v1/holds:release', { selection: { all: true }, reason: 'x' }],
  ['POST', '/v1/breakers/generic:force', { to: 'half_open', reason: 'x' }],
  ['POST', '/v1/config:reload', {}],
];

for (const [method, path, body] of changes) {
  for (const where of ['admin', 'port', 'stripePort']) {
    test(`${method} ${path} at the ${where}`, async () => {
      const before = (await s.vendors.requests('stripe')).length;
      const res = await fetch(`http://127.0.0.1:${s[where]}${path}`, {
        method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' },
      });
      assert.ok(res.status >= 400, `answer ${res.status}`);
      assert.equal((await s.vendors.requests('stripe')).length, before);
    });
  }
}

test('the level is what it was', async () => {
  const res = await fetch(s.base('generic') + '/items', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"b":2}' });
  assert.equal(res.status, 403);
  assert.equal((await s.vendors.effects('generic')).length, 0);
});
