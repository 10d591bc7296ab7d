// The calls that agents make, each with the vendor's own SDK. Only the base URL is ours: retries, time-outs and everything
// else stay as the vendor ships them.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import { WebClient } from '@slack/web-api';
import Stripe from 'stripe';
import { Octokit } from '@octokit/rest';
import twilio from 'twilio';
import sendgrid from '@sendgrid/mail';

// Every literal that must never be found in what Stoplog stores.
export const secrets = {
  openai: 'sk-e2e-openai-7f3a91c2',
  anthropic: 'sk-ant-e2e-51d0b8e7',
  gemini: 'AIza-e2e-gemini-0c94',
  slack: 'xoxb-e2e-slack-88ab12',
  stripe: 'sk_test_e2e_stripe_42de',
  github: 'ghp_e2e_github_9b7c',
  twilio: 'e2etwiliotoken5e6f',
  sendgrid: 'SG.e2e-sendgrid-31aa',
  jira: 'e2e-jira-token-6d20',
};
export const twilioAccount = 'AC00000000000000000000000000000e2e';

// Secrets as they travel: plain, and inside Basic credentials.
export const literals = [
  ...Object.values(secrets),
  btoa(`${twilioAccount}:${secrets.twilio}`),
  btoa(`ada@example.com:${secrets.jira}`),
];

const quiet = { debug() {}, info() {}, warn() {}, error() {}, setLevel() {}, getLevel() {}, setName() {} };

export const openai = (base) => new OpenAI({ apiKey: secrets.openai, baseURL: base + '/v1' });
export const anthropic = (base) => new Anthropic({ apiKey: secrets.anthropic, baseURL: base });
export const gemini = (base) => new GoogleGenAI({ apiKey: secrets.gemini, httpOptions: { baseUrl: base } });
export const slack = (base) => new WebClient(secrets.slack, { slackApiUrl: base + '/api/', logger: quiet });
export const github = (base) => new Octokit({ auth: secrets.github, baseUrl: base, log: quiet });
// Stripe's SDK takes a host and a port and no path, hence a listener that is bound to one destination.
export const stripe = (base) => {
  const { hostname: host, port } = new URL(base);
  return new Stripe(secrets.stripe, { host, port, protocol: 'http' });
};
export const sms = (base) => {
  const client = twilio(twilioAccount, secrets.twilio);
  client.api.baseUrl = base;
  return client;
};
export const mail = (base) => {
  sendgrid.setApiKey(secrets.sendgrid);
  sendgrid.client.setDefaultRequest('baseUrl', base);
  return sendgrid;
};

const hi = [{ role: 'user', content: 'hi there' }];
const said = 'You said: hi there';

async function text(stream, piece) {
  let s = '';
  for await (const part of stream) s += piece(part) ?? '';
  return s;
}

async function json(base, path, { method = 'POST', body, headers = {} } = {}) {
  const res = await fetch(base + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    body: body && JSON.stringify(body),
  });
  if (!res.ok) throw Object.assign(new Error(`${res.status} ${await res.text()}`), { status: res.status });
  return res.status === 204 ? null : res.json();
}
const jira = { authorization: 'Basic ' + btoa(`ada@example.com:${secrets.jira}`) };

// calls: name, vendor, class, action (the vendor's word for the effect; absent = none), run(base) and check(result).
export const calls = [
  {
    name: 'openai chat', vendor: 'openai', class: 'model',
    run: (base) => openai(base).chat.completions.create({ model: 'gpt-5', messages: hi }),
    check: (r) => {
      assert.equal(r.choices[0].message.content, said);
      assert.equal(r.usage.completion_tokens, 4);
    },
  },
  {
    name: 'openai chat stream', vendor: 'openai', class: 'model',
    run: async (base) => text(
      await openai(base).chat.completions.create({ model: 'gpt-5', messages: hi, stream: true, stream_options: { include_usage: true } }),
      (c) => c.choices[0]?.delta.content),
    check: (r) => assert.equal(r, said),
  },
  {
    name: 'openai chat tool stream', vendor: 'openai', class: 'model',
    run: (base) => openai(base).chat.completions.stream({
      model: 'gpt-5', messages: hi,
      tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }],
    }).finalMessage(),
    check: (r) => assert.equal(r.tool_calls[0].function.arguments, '{"input":"hi there"}'),
  },
  {
    name: 'openai responses', vendor: 'openai', class: 'model',
    run: (base) => openai(base).responses.create({ model: 'gpt-5', input: 'hi there' }),
    check: (r) => assert.equal(r.output_text, said),
  },
  {
    name: 'openai responses stream', vendor: 'openai', class: 'model',
    run: (base) => openai(base).responses.stream({ model: 'gpt-5', input: 'hi there' }).finalResponse(),
    check: (r) => {
      assert.equal(r.output_text, said);
      assert.equal(r.usage.output_tokens, 4);
    },
  },
  {
    name: 'openai embeddings', vendor: 'openai', class: 'model',
    run: (base) => openai(base).embeddings.create({ model: 'text-embedding-3-small', input: 'hi' }),
    check: (r) => assert.deepEqual(r.data[0].embedding, [2, 0.25, -0.5, 1]),
  },
  {
    name: 'openai models', vendor: 'openai', class: 'read',
    run: (base) => openai(base).models.list(),
    check: (r) => assert.equal(r.data[0].id, 'gpt-5'),
  },
  {
    name: 'anthropic messages', vendor: 'anthropic', class: 'model',
    run: (base) => anthropic(base).messages.create({ model: 'claude-opus-4', max_tokens: 64, messages: hi }),
    check: (r) => assert.equal(r.content[0].text, said),
  },
  {
    name: 'anthropic stream', vendor: 'anthropic', class: 'model',
    run: (base) => anthropic(base).messages.stream({ model: 'claude-opus-4', max_tokens: 64, messages: hi }).finalMessage(),
    check: (r) => {
      assert.equal(r.content[0].text, said);
      assert.equal(r.usage.output_tokens, 4);
    },
  },
  {
    name: 'gemini generateContent', vendor: 'gemini', class: 'model',
    run: (base) => gemini(base).models.generateContent({ model: 'gemini-3-flash', contents: 'hi there' }),
    check: (r) => {
      assert.equal(r.text, said);
      assert.equal(r.usageMetadata.thoughtsTokenCount, 5);
    },
  },
  {
    name: 'gemini stream', vendor: 'gemini', class: 'model',
    run: async (base) => text(
      await gemini(base).models.generateContentStream({ model: 'gemini-3-flash', contents: 'hi there' }), (c) => c.text),
    check: (r) => assert.equal(r, said),
  },
  {
    name: 'slack postMessage', vendor: 'slack', class: 'message', action: 'chat.postMessage',
    run: (base) => slack(base).chat.postMessage({ channel: 'C0123', text: 'hi there' }),
    check: (r) => assert.equal(r.message.text, 'hi there'),
  },
  {
    name: 'slack conversations.list', vendor: 'slack', class: 'read',
    run: (base) => slack(base).conversations.list(),
    check: (r) => assert.equal(r.channels[0].name, 'general'),
  },
  {
    name: 'stripe charge', vendor: 'stripe', class: 'write', action: 'charge.create', bound: true,
    run: (base) => stripe(base).charges.create({ amount: 500, currency: 'eur', source: 'tok_visa' }),
    check: (r) => assert.equal(r.status, 'succeeded'),
  },
  {
    name: 'stripe list', vendor: 'stripe', class: 'read', bound: true,
    run: (base) => stripe(base).charges.list({ limit: 3 }),
    check: (r) => assert.equal(r.object, 'list'),
  },
  {
    name: 'github issue', vendor: 'github', class: 'write', action: 'issue.create',
    run: (base) => github(base).rest.issues.create({ owner: 'o', repo: 'r', title: 'hi there' }),
    check: (r) => assert.equal(r.data.title, 'hi there'),
  },
  {
    name: 'github get issue', vendor: 'github', class: 'read',
    run: (base) => github(base).rest.issues.get({ owner: 'o', repo: 'r', issue_number: 1 }),
    check: (r) => assert.equal(r.data.number, 1),
  },
  {
    name: 'twilio message', vendor: 'twilio', class: 'message', action: 'message.create',
    run: (base) => sms(base).messages.create({ to: '+15550001', from: '+15550002', body: 'hi there' }),
    check: (r) => assert.match(r.sid, /^SM/),
  },
  {
    name: 'sendgrid mail', vendor: 'sendgrid', class: 'message', action: 'mail.send',
    run: (base) => mail(base).send({ to: 'ada@example.com', from: 'agent@example.com', subject: 'hi', text: 'hi there' }),
    check: ([r]) => assert.equal(r.statusCode, 202),
  },
  {
    name: 'jira issue', vendor: 'jira', class: 'write', action: 'issue.create',
    run: (base) => json(base, '/rest/api/3/issue', { headers: jira, body: { fields: { project: { key: 'OPS' }, summary: 'hi' } } }),
    check: (r) => assert.match(r.key, /^OPS-/),
  },
  {
    name: 'jira search', vendor: 'jira', class: 'read',
    run: (base) => json(base, '/rest/api/3/search/jql', { headers: jira, body: { jql: 'project = OPS' } }),
    check: (r) => assert.ok(Array.isArray(r.issues)),
  },
  {
    name: 'generic write', vendor: 'generic', class: 'write', action: 'item.create',
    run: (base) => json(base, '/items', { body: { a: 1 } }),
    check: (r) => assert.equal(r.a, 1),
  },
  {
    name: 'generic read', vendor: 'generic', class: 'read',
    run: (base) => json(base, '/items', { method: 'GET' }),
    check: (r) => assert.ok(Array.isArray(r.items)),
  },
];
