// Package configs reads Stoplog's configuration and turns it into one immutable Snapshot.
//
//	file ──▶ shape (keys, kinds) ──▶ protoyaml ──▶ protovalidate rules ──▶ meaning ──▶ Snapshot
//	         one spelling, no            stoplog.config.v1             across files      plain Go types
//	         duplicates
//
// The schema lives in proto/, its Go code in configv1 (what travels) and bootstrapv1 (what is local to a machine). Both are
// written by `go run ./configs/gen`. Nothing outside this package needs the protobuf types.
//
// A configuration is taken whole or not at all, and every problem in it is reported at once, with its place and its mend.
package configs
