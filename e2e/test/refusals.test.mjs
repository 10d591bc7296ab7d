// A refusal never parses as success and never causes a second request, whatever the SDK makes of it.
import { describe, test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { start } from '../harness.mjs';
import { broke } from '../config.mjs';
import { calls } from '../sdks.mjs';
import { during } from '../wire.mjs';
import { added, evidence } from '../evidence.mjs';

let s;
// Which classes a level stops, and what the receipts call it.
const levels = {
  L1: { message: 'hold' },
  L2: { message: 'hold', write: 'park' },
  L3: { message: 'hold', write: 'park', model: 'deny', read: 'deny' },
};

// refused expects one call, an error, nothing at the vendor, and one receipt with the verdict.
async function refused(c, verdict) {
  await s.vendors.reset();
  let result;
  const receipts = await added(s, async () => { result = await during(() => c.run(s.base(c.vendor))); });
  assert.ok(result.error, `parsed as success: ${JSON.stringify(result.value)}`);
  assert.equal(result.requests.length, 1, 'requests of the SDK');
  assert.equal((await s.vendors.requests(c.vendor)).length, 0, 'requests at the vendor');
  const own = receipts.filter((r) => r.destination === c.vendor);
  assert.equal(own.length, 1, 'one receipt');
  assert.equal(own[0].verdict, verdict);
}

for (const [level, stops] of Object.entries(levels)) {
  describe(`level ${level}`, () => {
    before(async () => {
      s = await start();
      await s.raise(level);
    });
    after(() => s?.close());
    for (const c of calls) {
      if (stops[c.class]) {
        test(`${c.name}: ${stops[c.class]}`, () => refused(c, stops[c.class]));
        continue;
      }
      test(`${c.name}: passes`, async () => {
        const { value, error } = await during(() => c.run(s.base(c.vendor)));
        assert.ifError(error);
        c.check(value);
      });
    }
    evidence(() => s);
  });
}

describe('budget exhausted', () => {
  before(async () => { s = await start({ change: broke }); });
  after(() => s?.close());
  for (const c of calls.filter((c) => c.class === 'model')) test(c.name, () => refused(c, 'deny'));
  for (const c of calls.filter((c) => c.class === 'message')) {
    test(c.name, async () => {
      const first = await during(() => c.run(s.base(c.vendor)));
      assert.ifError(first.error);
      await refused(c, 'deny');
    });
  }
  evidence(() => s);
});

describe('release', () => {
  before(async () => { s = await start(); });
  after(() => s?.close());
  test('a held message goes out once, byte for byte, after a person releases it', async () => {
    await s.raise('L1');
    const c = calls.find((c) => c.name === 'slack postMessage');
    const { error } = await during(() => c.run(s.base('slack')));
    assert.ok(error);
    const holds = await s.holds();
    assert.equal(holds.length, 1);
    await s.lower('L0');
    assert.equal((await s.vendors.effects('slack')).length, 0, 'lowering releases nothing by itself');
    await s.release(holds[0].operation);
    const effects = await s.vendors.effects('slack');
    assert.equal(effects.length, 1);
    assert.equal(new URLSearchParams(effects[0].text).get('text'), 'hi there');
  });
  evidence(() => s);
});
