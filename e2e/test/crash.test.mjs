// The end of a sidecar, kind or not: kill -9 while a write is under way leaves its intent on disk, so that the next start
// knows it.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { start } from '../harness.mjs';
import { until } from '../ports.mjs';
import { evidence } from '../evidence.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.close());

const write = (body, key = 'crash-1') => fetch(s.base('generic') + '/items', {
  method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': key }, body,
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

test('SIGTERM lets a write under way end', async () => {
  await s.lower('L0');
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'generic', kind: 'latency', delay_ms: 500, times: 1 });
  const answer = write('{"c":3}', 'drain-1');
  await until('the request', async () => (await s.vendors.requests('generic')).length === 1);
  await s.down();
  assert.equal((await answer).status, 201);
  await s.up();
});

test('whatever a killed sidecar did is on record', async () => {
  await s.vendors.reset();
  for (let round = 0; round < 3; round++) {
    await s.vendors.fault({ vendor: 'generic', kind: 'latency', delay_ms: 5 });
    const writes = Array.from({ length: 60 }, (_, i) => write(`{"round":${round},"i":${i}}`, `burst-${round}-${i}`).catch(() => null));
    await until('some effects', async () => (await s.vendors.effects('generic')).length > round * 60 + 5);
    await s.kill();
    await Promise.all(writes);
    await s.up();
  }
  const effects = await s.vendors.effects('generic');
  const intents = (await s.receipts()).filter((r) => r.typ === 'op.dispatching' && r.dest === 'generic');
  assert.ok(effects.length > 0);
  assert.ok(intents.length >= effects.length, `${effects.length} effects, ${intents.length} intents`);
});

evidence(() => s);
