// Package proxy is the way of one request: it accepts, classifies, has it judged and claimed, commits, forwards, settles and
// answers. Handler.ServeHTTP reads as that list.
//
// The package sees no store and no configuration format: it is given a Runtime, an Appender and a Ledger.
package proxy
