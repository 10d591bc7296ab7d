// What must be true of the evidence after any use.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './ports.mjs';
import { literals } from './sdks.mjs';

// evidence adds the last tests of a file or group; sidecar gives the process under test, which ends here.
export function evidence(sidecar) {
  test('the receipts verify, live and sealed', async () => {
    await sidecar().verify(); // throws on a non-zero exit
    await sidecar().down();
    await sidecar().verify();
  });
  test('no secret is stored or logged', async () => {
    assert.ok((await sidecar().found(['stoplog.local'])).length > 0, 'the search reads the files');
    assert.deepEqual(await sidecar().found(literals), []);
  });
}

// added runs f and gives the receipts that it has added.
export async function added(s, f) {
  const before = new Set((await settled(s, 0)).map(id));
  await f();
  return (await settled(s, before.size + 1)).filter((r) => !before.has(id(r))).map(words);
}

// settled reads the receipts once there are at least so many and no more come: those of reads and model calls are written
// behind the answer.
async function settled(s, least) {
  let last;
  return until(`receipt ${least}`, async () => {
    const now = await s.receipts();
    const same = now.length >= least && now.length === last;
    last = now.length;
    return same && now;
  });
}
const id = (r) => `${r.log}/${r.seq}`;

// words spells out the short names of a receipt's JSON.
const words = (r) => ({
  type: r.typ, destination: r.dest, class: r.cls, action: r.act, verdict: r.dec, reason: r.why, operation: r.op, state: r.state,
  outcome: r.out?.cls, usage: r.out?.use, by: r.out?.by, flags: r.flag ?? [],
});
