// The one retry loop is Stoplog's: it repeats what may be repeated, and nothing else does.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { start } from '../harness.mjs';
import { persistent } from '../config.mjs';
import { openai, stripe, sms } from '../sdks.mjs';
import { during } from '../wire.mjs';
import { evidence } from '../evidence.mjs';

let s;
before(async () => { s = await start({ change: persistent }); });
after(() => s?.close());

const wire = async (vendor) => (await s.vendors.requests(vendor)).length;
const ask = () => openai(s.base('openai')).chat.completions.create({ model: 'gpt-5', messages: [{ role: 'user', content: 'hi' }] });

test('a model call that failed for a moment is repeated', async () => {
  await s.vendors.fault({ vendor: 'openai', kind: 'status', status: 503, times: 1 });
  const { error, requests } = await during(ask);
  assert.ifError(error);
  assert.equal(requests.length, 1);
  assert.equal(await wire('openai'), 2);
});

test('a charge whose reply was lost is mended under its own key', async () => {
  await s.vendors.fault({ vendor: 'stripe', kind: 'cut_after_effect', times: 1 });
  const { value, error, requests } = await during(() => stripe(s.base('stripe')).charges.create({ amount: 5, currency: 'eur' }));
  assert.ifError(error);
  assert.equal(requests.length, 1);
  const effects = await s.vendors.effects('stripe');
  assert.deepEqual(effects.map((e) => e.id), [value.id]);
  const keys = (await s.vendors.requests('stripe')).map((r) => r.header['Idempotency-Key'][0]);
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
});

test('a message whose reply was lost is not repeated by anybody', async () => {
  await s.vendors.fault({ vendor: 'twilio', kind: 'cut_after_effect', times: 1 });
  const { error, requests } = await during(() => sms(s.base('twilio')).messages.create({ to: '+1', from: '+2', body: 'once' }));
  assert.ok(error);
  assert.equal(requests.length, 1);
  assert.equal(await wire('twilio'), 1);
});

test('a vendor that stays away costs the attempts of one intent, not those times the SDK\'s', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'openai', kind: 'status', status: 503 });
  const { error } = await during(ask);
  assert.ok(error);
  assert.ok(await wire('openai') <= 2, `${await wire('openai')} requests at the vendor`);
});

evidence(() => s);
