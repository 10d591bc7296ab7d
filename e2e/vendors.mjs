// Starts the fake vendors and speaks to their control listener.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { once } from 'node:events';

const here = (p) => fileURLToPath(new URL(p, import.meta.url));
export const vendorsBin = process.env.STOPLOG_VENDORS ?? here('../bin/e2e-vendors');

export async function startVendors() {
  const child = spawn(vendorsBin, { stdio: ['pipe', 'pipe', 'inherit'] });
  const line = await firstLine(child, vendorsBin);
  const { control, vendors: urls } = JSON.parse(line);
  const call = async (method, path, body) => {
    const res = await fetch(control + path, { method, body: body && JSON.stringify(body) });
    if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${await res.text()}`);
    return res.status === 204 ? undefined : res.json();
  };
  const exact = (list) => list.map((x) => ({ ...x, text: Buffer.from(x.body ?? '', 'base64').toString() }));
  return {
    urls,
    fault: (f) => call('POST', '/faults', f),
    reset: () => call('POST', '/reset'),
    effects: async (vendor) => exact(await call('GET', `/effects?vendor=${vendor}`)),
    requests: async (vendor) => exact(await call('GET', `/requests?vendor=${vendor}`)),
    stop: () => stop(child),
  };
}

// firstLine waits for the line with which a program says that it is ready.
async function firstLine(child, name) {
  const lines = createInterface({ input: child.stdout });
  const line = await Promise.race([
    once(lines, 'line').then(([l]) => l),
    once(child, 'error').then(([e]) => { throw new Error(`${name}: ${e.message}`); }),
    once(child, 'exit').then(([code]) => { throw new Error(`${name} ended with ${code}`); }),
  ]);
  child.stdout.resume();
  return line;
}

// stop ends one process that the tests have started, by its handle.
export async function stop(child, signal = 'SIGTERM') {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill(signal);
  const late = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await gone;
  clearTimeout(late);
}
