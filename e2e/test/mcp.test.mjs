// The official MCP client against the reference server, with Stoplog in between.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { start } from '../harness.mjs';
import { startEverything, connect } from '../mcp.mjs';
import { during } from '../wire.mjs';
import { added, evidence } from '../evidence.mjs';

let server, s, client;
before(async () => {
  server = await startEverything();
  s = await start({ extra: { mcp: server.url } });
  client = await connect(s.base('mcp'));
});
after(async () => {
  await client?.close();
  await s?.close();
  await server?.stop();
});

test('initialize', () => assert.ok(client.getServerVersion().name));

test('list tools', async () => {
  const { tools } = await client.listTools();
  assert.ok(tools.some((t) => t.name === 'echo'));
});

test('call a tool', async () => {
  const receipts = await added(s, async () => {
    const r = await client.callTool({ name: 'echo', arguments: { message: 'hi there' } });
    assert.ok(!r.isError);
    assert.match(r.content[0].text, /hi there/);
  });
  assert.ok(receipts.some((r) => r.destination === 'mcp'));
});

test('a tool that streams progress', async () => {
  let steps = 0;
  const r = await client.callTool({ name: 'trigger-long-running-operation', arguments: { duration: 1, steps: 3 } }, undefined,
    { onprogress: () => { steps++; } });
  assert.ok(!r.isError, JSON.stringify(r.content));
  assert.ok(steps > 0);
});

test('a tool that is held at L2 is a result that the model can read', async () => {
  await s.raise('L2');
  const { value: r, requests } = await during(() => client.callTool({ name: 'echo', arguments: { message: 'another' } }));
  assert.equal(requests.length, 1);
  assert.equal(r.isError, true);
  assert.match(r.content[0].text, /park|held|write_freeze/i);
  await client.listTools(); // reading goes on
});

test('at L3 a tool is still an answer, and reading throws; each is one request', async () => {
  await s.raise('L3');
  const call = await during(() => client.callTool({ name: 'echo', arguments: { message: 'a third' } }));
  assert.equal(call.value?.isError, true);
  assert.equal(call.requests.length, 1);
  const list = await during(() => client.listTools());
  assert.ok(list.error);
  assert.equal(list.requests.length, 1);
});

evidence(() => s);
