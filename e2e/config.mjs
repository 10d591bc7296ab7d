// The configuration of the sidecar under test. Files are YAML; JSON is YAML, so a plain object will do.

// bundle is what `stoplog up --config` reads: one destination per outside service, named like its connector profile.
export function bundle(urls) {
  return {
    destinations: Object.entries(urls).filter(([, url]) => url).map(([name, url]) => ({
      name,
      url,
      connector_profile: name,
      deadline: { total: '20s', per_attempt: '5s' },
      breaker: { window: '30s', min_requests: 50, failure_bps: 9000, consecutive_failures: 50, cooldown: '1s', probes_per_second: 5, close_after: 2 },
      limit: {
        requests: { capacity: 1000, refill_tokens: 1000, refill_interval: '1s' },
        max_concurrency: 100,
        tenant_share_bps: 10000,
      },
      allowed_networks: ['127.0.0.0/8'],
      hold: { keep_agent_credential: true },
    })),
  };
}

// broke adds budgets that allow no model call and one message per destination.
export function broke(b) {
  b.budgets = [
    { name: 'no-money', selector: { classes: ['MODEL'] }, spend_usd_micros: 1, window: 'DAY', keyed_by: ['FLEET'], hard: true },
    { name: 'one-message', selector: { classes: ['MESSAGE'] }, messages: 1, window: 'DAY', keyed_by: ['DESTINATION'], hard: true },
  ];
  return b;
}

// persistent gives every destination a second attempt.
export function persistent(b) {
  for (const d of b.destinations) {
    d.retry = {
      attempts: 2, bucket: { capacity: 100, refill_tokens: 100, refill_interval: '1s' },
      base_backoff: '10ms', max_backoff: '20ms', min_useful_attempt: '10ms',
    };
  }
  return b;
}

// bootstrap is what the process must know before anything else: addresses and folders. bound are listeners of one destination
// each.
export function bootstrap({ port, admin, bound, data }) {
  const actor = { tenant: 'acme', agent: 'e2e' };
  return {
    admin_address: `127.0.0.1:${admin}`,
    data_dir: data,
    listeners: [
      { address: `127.0.0.1:${port}`, actor },
      ...Object.entries(bound).map(([destination, p]) => ({ address: `127.0.0.1:${p}`, destination, actor })),
    ],
  };
}
