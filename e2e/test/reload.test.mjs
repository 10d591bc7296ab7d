// A changed configuration is taken up whole or not at all, without a restart.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { start } from '../harness.mjs';
import { until } from '../ports.mjs';
import { evidence } from '../evidence.mjs';

let s, good;
before(async () => {
  s = await start();
  good = JSON.parse(await readFile(s.config, 'utf8'));
});
after(() => s?.close());

const read = async (destination) => (await fetch(s.base(destination) + '/items')).status;

test('a new destination works after the file has changed', async () => {
  assert.equal(await read('second'), 403);
  const second = { ...good.destinations.find((d) => d.name === 'generic'), name: 'second' };
  await writeFile(s.config, JSON.stringify({ ...good, destinations: [...good.destinations, second] }));
  s.child.kill('SIGHUP');
  await until('the new destination', async () => await read('second') === 200, 10_000);
});

for (const [name, text] of Object.entries({
  'a file that does not parse': 'destinations: [',
  'an unknown key': JSON.stringify({ destinations: [], surprise: true }),
  'a destination without limits': JSON.stringify({ destinations: [{ name: 'x', url: 'https://x.example', connector_profile: 'generic' }] }),
  'an empty file': '',
})) {
  test(`${name} changes nothing`, async () => {
    await writeFile(s.config, text);
    await assert.rejects(s.cli('config', 'reload'));
    assert.equal(await read('second'), 200);
    assert.equal(await read('generic'), 200);
  });
}

evidence(() => s);
