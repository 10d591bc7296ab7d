// The fakes and the SDKs agree: every call of the other tests succeeds without Stoplog in between. When a test fails and this
// one does, too, the proxy is not to blame.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { startVendors } from '../vendors.mjs';
import { calls, slack, stripe, github } from '../sdks.mjs';
import { during } from '../wire.mjs';

let vendors;
before(async () => { vendors = await startVendors(); });
after(() => vendors?.stop());

for (const c of calls) {
  test(c.name, async () => {
    const before = (await vendors.effects(c.vendor)).length;
    const { value, error, requests } = await during(() => c.run(vendors.urls[c.vendor]));
    assert.ifError(error);
    c.check(value);
    assert.equal(requests.length, 1);
    const effects = await vendors.effects(c.vendor);
    assert.deepEqual(effects.slice(before).map((e) => e.action), c.action ? [c.action] : []);
  });
}

test('slack refuses with ok false', async () => {
  await assert.rejects(slack(vendors.urls.slack).chat.postMessage({ channel: 'C404', text: 'x' }), /channel_not_found/);
});

test('stripe does not charge twice for a lost reply', async () => {
  await vendors.reset();
  await vendors.fault({ vendor: 'stripe', kind: 'cut_after_effect', times: 1 });
  const charge = await stripe(vendors.urls.stripe).charges.create({ amount: 1, currency: 'eur' });
  assert.match(charge.id, /^ch_/);
  assert.equal((await vendors.effects('stripe')).length, 1);
  assert.equal((await vendors.requests('stripe')).length, 2); // the SDK has sent it again under the same key
});

test('github has three pages', async () => {
  await vendors.reset();
  const g = github(vendors.urls.github);
  const issues = await g.paginate(g.rest.issues.listForRepo, { owner: 'o', repo: 'r' });
  assert.equal(issues.length, 75);
  assert.equal((await vendors.requests('github')).length, 3);
});
