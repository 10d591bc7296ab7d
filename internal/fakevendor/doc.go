// Package fakevendor runs stand-ins for the services that agents call: model providers, chat, tickets, payments, mail.
//
// They listen on loopback, need no key that works elsewhere, and behave like the real ones where a proxy can get it wrong:
// Slack refuses with 200, Stripe replays a stored result, model providers stream usage in their own ways, GitHub's
// pagination links are absolute and lead to another path. Each vendor records every request that reached it and, apart from
// that, every effect that it applied, with the exact bytes. Faults are scripted per vendor, method and path (see Fault), so
// that a lost reply or a cut stream happens when a test wants it and at no other time.
//
// The demo and the playground use the package as well; it is no test helper. It imports the standard library only.
package fakevendor
