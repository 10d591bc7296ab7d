// `up --observe`: everything is judged and recorded, nothing is enforced.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { start } from '../harness.mjs';
import { calls } from '../sdks.mjs';
import { during } from '../wire.mjs';
import { added, evidence } from '../evidence.mjs';

let s;
before(async () => {
  s = await start({ flags: ['--observe'] });
  await s.raise('L3');
});
after(() => s?.close());

test('the banner is loud', async () => assert.match(await s.log(), /OBSERVE/));

for (const name of ['openai chat stream', 'slack postMessage', 'stripe charge', 'github get issue']) {
  const c = calls.find((c) => c.name === name);
  test(`${name} passes at L3, and the receipt says what would have been`, async () => {
    let result;
    const receipts = await added(s, async () => { result = await during(() => c.run(s.base(c.vendor))); });
    assert.ifError(result.error);
    c.check(result.value);
    assert.ok(receipts.some((r) => ['hold', 'park', 'deny'].includes(r.verdict)), JSON.stringify(receipts));
  });
}

evidence(() => s);
