// What must be true of the evidence after any use.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { literals } from './sdks.mjs';

// evidence adds the last tests of a file; sidecar gives the process under test.
export function evidence(sidecar) {
  test('the receipts verify', async () => {
    await sidecar().verify(); // throws on a non-zero exit
  });
  test('no secret is stored or logged', async () => {
    assert.deepEqual(await sidecar().found(literals), []);
  });
}

// added runs f and gives the receipts that it has added.
export async function added(s, f) {
  const before = new Set((await s.receipts()).map(id));
  await f();
  return (await s.receipts()).filter((r) => !before.has(id(r)));
}
const id = (r) => `${r.log}/${r.seq}`;
