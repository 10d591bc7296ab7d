// The reference MCP server, and the official client for it.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { freePort, until } from './ports.mjs';
import { stop } from './vendors.mjs';

const everything = fileURLToPath(new URL('node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url));

export async function startEverything() {
  const port = await freePort();
  const child = spawn(process.execPath, [everything, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) }, stdio: ['ignore', 'ignore', 'ignore'],
  });
  const url = `http://127.0.0.1:${port}`;
  await until('the MCP server', async () => (await fetch(url + '/mcp')).status === 400); // it wants a session: it is up
  return { url, stop: () => stop(child) };
}

// connect makes an initialized client of the server behind base.
export async function connect(base, options = {}) {
  const client = new Client({ name: 'e2e', version: '1.0.0' }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(base + '/mcp')));
  return client;
}
