// What a person does first: `stoplog up` without a file, the printed curl line, `stoplog demo`.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { stoplogBin } from '../harness.mjs';
import { freePort, until } from '../ports.mjs';
import { stop } from '../vendors.mjs';

const run = promisify(execFile);
let dir, child, base, banner = '';

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoplog-first-'));
  const [port, admin] = [await freePort(), await freePort()];
  base = `http://127.0.0.1:${port}`;
  child = spawn(stoplogBin, ['up', '--data', join(dir, 'data'), '--listen', `127.0.0.1:${port}`, '--admin', `127.0.0.1:${admin}`],
    { stdio: ['ignore', 'pipe', 'ignore'] });
  child.stdout.on('data', (b) => { banner += b; });
  await until('/readyz', async () => (await fetch(`http://127.0.0.1:${admin}/readyz`)).ok);
});
after(async () => {
  if (child) await stop(child);
  await rm(dir, { recursive: true, force: true });
});

test('the banner names every destination and its base URL', async () => {
  await until('the banner', () => banner.includes('curl'));
  for (const d of ['openai', 'anthropic', 'gemini', 'slack', 'github', 'stripe', 'twilio', 'sendgrid', 'playground']) {
    assert.match(banner, new RegExp(`${base}/${d}\\b`), d);
  }
});

test('the printed curl line works as it stands', async () => {
  const line = banner.split('\n').find((l) => l.trim().startsWith('curl '));
  const { stdout } = await run('sh', ['-c', line.trim()]);
  assert.match(stdout, /^HTTP\/1.1 200 /);
  assert.match(stdout, /delivered/);
});

test('receipts can be read and verified while it runs', async () => {
  const at = ['--data', join(dir, 'data')];
  assert.match((await run(stoplogBin, ['receipts', 'tail', ...at])).stdout, /playground/);
  await run(stoplogBin, ['receipts', 'verify', ...at]);
});

test('an unknown destination is refused', async () => {
  const res = await fetch(`${base}/nothing/x`);
  assert.equal(res.status, 403);
  assert.equal((await res.json()).reason, 'unknown_destination');
});

test('stoplog demo runs to its end within half a minute', { timeout: 45_000 }, async () => {
  const began = Date.now();
  const { stdout } = await run(stoplogBin, ['demo'], { env: { ...process.env, HOME: dir, XDG_DATA_HOME: dir } });
  assert.ok(Date.now() - began < 30_000, `${Date.now() - began} ms`);
  assert.ok(stdout.length > 500);
});
