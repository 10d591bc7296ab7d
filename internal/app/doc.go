// Package app wires a sidecar together from its parts. It is the only package that knows all of them; nothing but the
// command imports it.
package app
