package configs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is one problem in a configuration.
type Error struct {
	File    string // as it was named to Load or Parse; empty for what did not come from a file
	Line    int    // from 1; 0 = no place in the file
	Column  int    // from 1
	Field   string // "destinations[0].breaker.cooldown"; empty = the file itself
	Problem string // "missing"
	Mend    string // what to do about it; may be empty
}

// Error is `slack.yaml:14:7 destinations[0].breaker.cooldown: missing; add e.g. "cooldown: 30s"`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e.Field)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(e.Problem)
	if e.Mend != "" {
		b.WriteString("; ")
		b.WriteString(e.Mend)
	}
	return b.String()
}

// Errors are all problems of a configuration, ordered by file and place. An empty Errors is never returned as an error.
type Errors []*Error

// Error has one line per problem.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find the first *Error.
func (e Errors) Unwrap() []error {
	u := make([]error, len(e))
	for i, x := range e {
		u[i] = x
	}
	return u
}

// Problems are the single problems in an error of this package; any other error is one problem without a place.
func Problems(err error) Errors {
	var list Errors
	var one *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &list):
		return list
	case errors.As(err, &one):
		return Errors{one}
	default:
		return Errors{{Problem: err.Error()}}
	}
}

// orNil is e as an error, in reading order.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}
