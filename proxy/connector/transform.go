package connector

import (
	"fmt"
	"strings"
)

// transform is one step of a source. The set is closed: a profile is data.
type transform struct {
	name, arg string
}

var transformsWithArg = map[string]bool{
	"lower": false, "trim": false, "address": false, "digits": false, "decode": false,
	"split": true, "before": true, "after": true, "last": true, "prefix": true, "suffix": true,
	"seconds": false, "millis": false, "epoch": false, "duration": false,
}

func compileTransforms(list []string) ([]transform, error) {
	var out []transform
	for i, s := range list {
		name, arg, has := strings.Cut(s, ":")
		want, known := transformsWithArg[name]
		if !known || want != (has && arg != "") {
			return nil, fmt.Errorf("transforms[%d]: %q is not a transform", i, s)
		}
		out = append(out, transform{name, arg})
	}
	return out, nil
}

// apply changes the values from index from on.
func (t *transform) apply(v []string, from int) []string {
	if t.name == "split" {
		all := strings.Join(v[from:], t.arg)
		v = v[:from]
		for s := range strings.SplitSeq(all, t.arg) {
			v = append(v, strings.TrimSpace(s))
		}
		return v
	}
	for i := from; i < len(v); i++ {
		v[i] = t.one(v[i])
	}
	return v
}

func (t *transform) one(s string) string {
	switch t.name {
	case "lower":
		return strings.ToLower(s)
	case "trim":
		return strings.TrimSpace(s)
	case "before":
		before, _, _ := strings.Cut(s, t.arg)
		return before
	case "after":
		_, after, _ := strings.Cut(s, t.arg)
		return after
	case "last":
		i := strings.LastIndex(s, t.arg)
		if i < 0 {
			return s
		}
		return s[i+len(t.arg):]
	case "prefix", "suffix":
		if s == "" {
			return ""
		}
		if t.name == "prefix" {
			return t.arg + s
		}
		return s + t.arg
	case "address":
		return address(s)
	case "digits":
		return strings.Map(func(r rune) rune {
			if r == '+' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, s)
	case "decode":
		plain, ok := percentDecode(s, false)
		if ok {
			return plain
		}
	}
	return s // seconds, millis, epoch and duration say how a wait is written; see waits
}

// address is the bare address of `Ann <ann@example.com>`, lower case.
func address(s string) string {
	open := strings.LastIndexByte(s, '<')
	if open >= 0 && strings.HasSuffix(strings.TrimSpace(s), ">") {
		s = strings.TrimSuffix(strings.TrimSpace(s[open+1:]), ">")
	}
	return strings.ToLower(strings.TrimSpace(s))
}
