// Unmodified SDKs through Stoplog: what is allowed arrives once, byte for byte, and is on record.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { start } from '../harness.mjs';
import { calls, slack, stripe, github, openai, anthropic, gemini, sms } from '../sdks.mjs';
import { during } from '../wire.mjs';
import { added, evidence } from '../evidence.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.close());

for (const c of calls) {
  test(c.name, async () => {
    await s.vendors.reset();
    let result;
    const receipts = await added(s, async () => { result = await during(() => c.run(s.base(c.vendor))); });
    assert.ifError(result.error);
    c.check(result.value);
    assert.equal(result.requests.length, 1, 'requests of the SDK');
    assert.equal((await s.vendors.requests(c.vendor)).length, 1, 'requests at the vendor');
    assert.deepEqual((await s.vendors.effects(c.vendor)).map((e) => e.action), c.action ? [c.action] : []);
    const own = receipts.filter((r) => r.destination === c.vendor);
    assert.ok(own.length > 0, 'a receipt exists');
    assert.ok(own.every((r) => r.class === c.class), `class ${own.map((r) => r.class)}`);
    assert.ok(own.some((r) => r.outcome === 'confirmed'), 'the outcome is on record');
  });
}

test('slack: ok false is thrown, once', async () => {
  await s.vendors.reset();
  const { error, requests } = await during(() => slack(s.base('slack')).chat.postMessage({ channel: 'C404', text: 'x' }));
  assert.match(error.message, /channel_not_found/);
  assert.equal(requests.length, 1);
  assert.equal((await s.vendors.requests('slack')).length, 1);
});

test('stripe: the same key twice is one charge and one answer', async () => {
  await s.vendors.reset();
  const once = () => stripe(s.base('stripe')).charges.create({ amount: 700, currency: 'eur' }, { idempotencyKey: 'order-1001' });
  const [a, b] = [await once(), await once()];
  assert.equal(a.id, b.id);
  assert.equal((await s.vendors.effects('stripe')).length, 1);
});

test('stripe: the same key ten times at once is one charge', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'stripe', kind: 'latency', delay_ms: 50 });
  const once = () => during(() => stripe(s.base('stripe')).charges.create({ amount: 800, currency: 'eur' }, { idempotencyKey: 'race-1' }));
  const all = await Promise.all(Array.from({ length: 10 }, once));
  const ids = new Set(all.filter((r) => r.value).map((r) => r.value.id));
  assert.equal(ids.size, 1, 'nobody was told of another charge');
  assert.equal((await s.vendors.effects('stripe')).length, 1);
});

test('stripe: a lost reply is no second charge', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'stripe', kind: 'cut_after_effect', times: 1 });
  const charge = (key) => stripe(s.base('stripe')).charges.create({ amount: 900, currency: 'eur' }, { idempotencyKey: key });
  await during(() => charge('order-1002')); // thrown as unknown, or mended under the same key: both are right
  assert.equal((await s.vendors.effects('stripe')).length, 1);
  await during(() => charge('order-1002'));
  assert.equal((await s.vendors.effects('stripe')).length, 1);
});

test('twilio: the same message twice is two messages, since nothing says that it is one', async () => {
  await s.vendors.reset();
  for (let i = 0; i < 2; i++) await sms(s.base('twilio')).messages.create({ to: '+15550001', from: '+15550002', body: 'reminder' });
  assert.equal((await s.vendors.effects('twilio')).length, 2);
});

test('twilio: a lost reply is not sent again, and is told as unknown', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'twilio', kind: 'cut_after_effect', times: 1 });
  const send = () => sms(s.base('twilio')).messages.create({ to: '+15550001', from: '+15550002', body: 'code 4711' });
  const { error } = await during(send);
  assert.ok(error);
  assert.equal((await s.vendors.requests('twilio')).length, 1);
  const again = await during(send);
  assert.ok(again.error, 'the same message again is not sent while the outcome of the first is unknown');
  assert.equal((await s.vendors.requests('twilio')).length, 1);
});

test('github: pagination stays inside', async () => {
  await s.vendors.reset();
  const g = github(s.base('github'));
  const links = [];
  g.hook.after('request', (res) => { if (res.headers.link) links.push(res.headers.link); });
  let issues;
  const { requests, error } = await during(async () => {
    issues = await g.paginate(g.rest.issues.listForRepo, { owner: 'o', repo: 'r' });
  });
  assert.ifError(error);
  assert.equal(issues.length, 75);
  assert.equal(requests.length, 3);
  for (const r of requests) assert.ok(r.startsWith(`GET ${s.base('github')}/`), r);
  for (const l of links) assert.ok(!l.includes(new URL(s.vendors.urls.github).host), l);
  assert.equal((await s.vendors.requests('github')).length, 3);
});

test('the exact bytes arrive', async () => {
  await s.vendors.reset();
  const body = '{ "a" : 1.0,\t"é":"\\u0041", "n": 12345678901234567890 }\n';
  const res = await fetch(s.base('generic') + '/items?x=%7e', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  assert.equal(res.status, 201);
  const [e] = await s.vendors.effects('generic');
  assert.equal(e.text, body);
  assert.equal(e.target, '/items?x=%7e');
});

test('a stream arrives frame by frame', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'openai', kind: 'slow_stream', interval_ms: 150, times: 1 });
  const at = [];
  const stream = await openai(s.base('openai')).chat.completions.create({
    model: 'gpt-5', messages: [{ role: 'user', content: 'a b c' }], stream: true,
  });
  for await (const _ of stream) at.push(Date.now());
  assert.ok(at.length >= 5);
  assert.ok(at.at(-1) - at[0] > 300, 'frames came one by one, not all at the end');
});

test('an agent that leaves a stream leaves no open call', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'openai', kind: 'slow_stream', interval_ms: 50, times: 1 });
  const receipts = await added(s, async () => {
    const stream = await openai(s.base('openai')).chat.completions.create({
      model: 'gpt-5', messages: [{ role: 'user', content: 'a b c d e f' }], stream: true, stream_options: { include_usage: true },
    });
    for await (const _ of stream) break;
    await sleep(1500); // the drain reads on to the usage
  });
  const [end, ...more] = receipts.filter((r) => r.outcome);
  assert.deepEqual(more, []);
  assert.ok(end.flags.includes('client_gone'));
  assert.equal(end.usage.out, 8, 'the usage was read after the agent had left');
});

// post sends a generic write; the content differs from call to call.
let n = 0;
const post = (headers = {}) => fetch(s.base('generic') + '/items', {
  method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify({ n: ++n }), redirect: 'manual',
});

test('a redirect is handed to the agent, not followed', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'generic', kind: 'redirect', location: 'http://evil.example/x', times: 1 });
  const res = await post();
  assert.equal(res.status, 307);
  assert.equal(res.headers.get('location'), 'http://evil.example/x');
});

test('a truncated answer never ends cleanly', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'generic', kind: 'cut_mid_body', times: 1 });
  const res = await post().catch(() => null);
  if (res?.ok) await assert.rejects(res.text());
  assert.equal((await s.vendors.requests('generic')).length, 1);
});

test('a stream that breaks is no complete answer', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'openai', kind: 'cut_mid_stream', frames: 4, times: 1 });
  const { error } = await during(async () => {
    const stream = await openai(s.base('openai')).chat.completions.create({
      model: 'gpt-5', messages: [{ role: 'user', content: 'a b c d e f' }], stream: true,
    });
    for await (const _ of stream);
  });
  assert.ok(error);
  assert.equal((await s.vendors.requests('openai')).length, 1);
});

test('trailers that no header announced arrive', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'generic', kind: 'trailers', headers: { 'Grpc-Status': '14' }, times: 1 });
  const trailers = await new Promise((resolve, reject) => {
    const req = request(s.base('generic') + '/items', (res) => {
      res.resume();
      res.on('end', () => resolve(res.trailers));
    });
    req.on('error', reject).end();
  });
  assert.equal(trailers['grpc-status'], '14');
});

for (const [name, c] of Object.entries({
  'openai chat': { run: (base) => openai(base).chat.completions.create({ model: 'gpt-5', messages: [{ role: 'user', content: 'hi' }] }), vendor: 'openai', out: 3 },
  'openai chat stream': {
    run: async (base) => {
      const stream = await openai(base).chat.completions.create({
        model: 'gpt-5', messages: [{ role: 'user', content: 'hi' }], stream: true, stream_options: { include_usage: true },
      });
      for await (const _ of stream);
    }, vendor: 'openai', out: 3,
  },
  'anthropic stream': { run: (base) => anthropic(base).messages.stream({ model: 'claude-opus-4', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] }).finalMessage(), vendor: 'anthropic', out: 3 },
  'gemini': { run: (base) => gemini(base).models.generateContent({ model: 'gemini-3-flash', contents: 'hi' }), vendor: 'gemini', out: 8 },
})) {
  test(`usage is read from a compressed answer: ${name}`, async () => {
    await s.vendors.reset();
    await s.vendors.fault({ vendor: c.vendor, kind: 'gzip', times: 1 });
    const [end] = await added(s, () => c.run(s.base(c.vendor)));
    assert.equal(end.usage?.out, c.out);
  });
}

test('stripe: a 429 uses up no key; the same charge goes through later', async () => {
  await s.vendors.reset();
  await s.vendors.fault({ vendor: 'stripe', kind: 'rate_limited', retry_after: '1', times: 1 });
  const charge = () => stripe(s.base('stripe')).charges.create({ amount: 1, currency: 'eur' }, { idempotencyKey: 'later-1' });
  const first = await during(charge);
  assert.ok(first.error);
  assert.equal(first.requests.length, 1);
  await sleep(1100); // the vendor's Retry-After cools the bucket for everybody
  // A later try is a wish of its own: the first one's attempts are used up.
  const again = await fetch(`${s.base('stripe')}/v1/charges`, {
    method: 'POST',
    headers: {
      Authorization: 'Bearer sk_test_later', 'Content-Type': 'application/x-www-form-urlencoded', 'Idempotency-Key': 'later-1',
      'Stoplog-Intent': '"second-try"',
    },
    body: 'amount=1&currency=eur',
  });
  assert.equal(again.status, 200, await again.clone().text());
  assert.match((await again.json()).id, /^ch_/);
  assert.equal((await s.vendors.effects('stripe')).length, 1);
});

evidence(() => s);
