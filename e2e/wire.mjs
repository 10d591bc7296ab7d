// Counts the HTTP requests that this process sends, whatever library sends them, by Node's own diagnostics.
import { subscribe } from 'node:diagnostics_channel';

const seen = [];
subscribe('undici:request:create', ({ request }) => seen.push(`${request.method} ${request.origin}${request.path}`));
subscribe('http.client.request.start', ({ request }) => seen.push(`${request.method} ${request.protocol}//${request.getHeader('host') ?? request.host}${request.path}`));

// during runs f and gives what it returned or threw, and the requests that it sent.
export async function during(f) {
  const from = seen.length;
  let value, error;
  try {
    value = await f();
  } catch (e) {
    error = e ?? new Error('threw nothing');
  }
  return { value, error, requests: seen.slice(from) };
}
