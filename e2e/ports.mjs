import { createServer } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

export async function freePort() {
  const s = createServer().listen(0, '127.0.0.1');
  await once(s, 'listening');
  const { port } = s.address();
  s.close();
  await once(s, 'close');
  return port;
}

// until waits for a condition. An error counts as not yet, and is the cause of the final one.
export async function until(what, condition, ms = 15_000) {
  const end = Date.now() + ms;
  let cause;
  while (Date.now() < end) {
    try {
      const value = await condition();
      if (value) return value;
      cause = undefined;
    } catch (e) {
      cause = e;
    }
    await sleep(20);
  }
  throw new Error(`waited ${ms} ms for ${what}`, { cause });
}
