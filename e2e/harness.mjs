// One Stoplog process over the fake vendors, and everything a test needs to ask of it.
import { spawn, execFile } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundle, bootstrap } from './config.mjs';
import { freePort, until } from './ports.mjs';
import { startVendors, stop } from './vendors.mjs';

const run = promisify(execFile);
export const stoplogBin = process.env.STOPLOG_BIN ?? fileURLToPath(new URL('../bin/stoplog', import.meta.url));

// start runs the fakes and Stoplog in front of them. extra adds outside services by destination, change edits the bundle,
// flags are further ones of `up`.
export async function start({ extra = {}, change = (b) => b, flags = [] } = {}) {
  const vendors = await startVendors();
  const dir = await mkdtemp(join(tmpdir(), 'stoplog-e2e-'));
  const s = new Stoplog(vendors, dir, flags);
  try {
    await s.configure(change(bundle({ ...vendors.urls, mcp: undefined, playground: undefined, ...extra })));
    await s.up();
  } catch (e) {
    await s.close();
    throw e;
  }
  return s;
}

class Stoplog {
  constructor(vendors, dir, flags) {
    this.vendors = vendors;
    this.flags = flags;
    this.dir = dir;
    this.data = join(dir, 'data');
    this.logFile = join(dir, 'stoplog.log');
  }

  async configure(b) {
    [this.port, this.admin, this.stripePort] = await Promise.all([freePort(), freePort(), freePort()]);
    this.config = join(this.dir, 'config.yaml');
    this.bootstrap = join(this.dir, 'bootstrap.yaml');
    await writeFile(this.config, JSON.stringify(b, null, 2));
    await writeFile(this.bootstrap, JSON.stringify(
      bootstrap({ port: this.port, admin: this.admin, bound: { stripe: this.stripePort }, data: this.data }), null, 2));
  }

  async up() {
    this.child = spawn(stoplogBin, ['up', '--config', this.config, '--bootstrap', this.bootstrap, '--data', this.data, ...this.flags],
      { stdio: ['ignore', 'pipe', 'pipe'] });
    const log = createWriteStream(this.logFile, { flags: 'a' });
    this.child.stdout.pipe(log, { end: false });
    this.child.stderr.pipe(log, { end: false });
    this.child.once('error', (e) => { this.failed = e; });
    await until('/readyz', async () => {
      if (this.failed || this.child.exitCode !== null) return true; // told below
      return (await fetch(`http://127.0.0.1:${this.admin}/readyz`)).ok;
    });
    if (this.failed || this.child.exitCode !== null) {
      throw new Error(`${stoplogBin} did not start: ${this.failed ?? await this.log()}`);
    }
  }

  // base is the URL that an SDK gets for a destination; stripe has a listener of its own.
  base(destination) {
    return destination === 'stripe' ? `http://127.0.0.1:${this.stripePort}` : `http://127.0.0.1:${this.port}/${destination}`;
  }

  log() { return readFile(this.logFile, 'utf8'); }

  // cli runs a command against this sidecar and gives its output. It throws when the command fails.
  async cli(...args) {
    const { stdout } = await run(stoplogBin, [...args, '--json', '--data', this.data], { maxBuffer: 64 << 20 });
    return stdout;
  }

  raise(level) { return this.cli('level', 'raise', level, '--reason', 'test'); }
  lower(level) { return this.cli('level', 'lower', level, '--reason', 'test', '--yes'); }
  release(operation) { return this.cli('holds', 'release', operation, '--reason', 'test'); }
  verify() { return this.cli('receipts', 'verify'); }
  withdraw(operation) { return this.cli('holds', 'withdraw', operation, '--reason', 'test'); }
  async holds() { return JSON.parse(await this.cli('holds', 'list')).items; }
  async receipts() {
    return (await this.cli('receipts', 'tail', '-n', '0')).split('\n').filter(Boolean).map((l) => JSON.parse(l));
  }

  // found lists the files below the data folder, and the process's log, that hold one of the texts.
  async found(texts) {
    const hits = [];
    const files = await readdir(this.data, { recursive: true, withFileTypes: true });
    for (const f of [...files.filter((f) => f.isFile()).map((f) => join(f.parentPath ?? f.path, f.name)), this.logFile]) {
      const bytes = await readFile(f);
      for (const t of texts) if (bytes.includes(t)) hits.push(`${t} in ${f}`);
    }
    return hits;
  }

  async kill() { await stop(this.child, 'SIGKILL'); }
  async down() { if (this.child) await stop(this.child); }

  async close() {
    await this.down();
    await this.vendors.stop();
    if (!process.env.STOPLOG_E2E_KEEP) await rm(this.dir, { recursive: true, force: true });
  }
}
