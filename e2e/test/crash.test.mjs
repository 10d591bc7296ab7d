// kill -9 while a write is under way: its intent was on disk before it left, so the next start knows it.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { start } from '../harness.mjs';
import { until } from '../ports.mjs';
import { evidence } from '../evidence.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.close());

const write = (body) => fetch(s.base('generic') + '/items', {
  method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': 'crash-1' }, body,
});

test('a write in flight is unknown after the crash, and is not sent again', async () => {
  await s.vendors.fault({ vendor: 'generic', method: 'POST', kind: 'hang_after_effect', times: 1 });
  const lost = write('{"a":1}').catch((e) => e);
  await until('the effect', async () => (await s.vendors.effects('generic')).length === 1);
  await s.kill();
  assert.ok(await lost instanceof Error);
  await s.up();
  const again = await write('{"a":1}');
  assert.ok(again.status >= 400, `answer ${again.status}`);
  assert.equal((await again.json()).reason, 'outcome_unknown');
  assert.equal((await s.vendors.effects('generic')).length, 1);
});

test('a level outlives the crash', async () => {
  await s.raise('L2');
  await s.kill();
  await s.up();
  const res = await fetch(s.base('generic') + '/items', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"b":2}' });
  assert.equal(res.status, 403);
  assert.equal((await s.vendors.effects('generic')).length, 1);
});

evidence(() => s);
