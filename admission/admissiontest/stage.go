package admissiontest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// Stage checks what every stage must keep to, on the given cases and on a bare one: it has a name in snake_case, it is
// repeatable, it does not change the case, it answers a cancelled context at once, and what it allows it allows in its own
// name. That an error denies is the pipeline's doing; that a stage never answers an error with an allowing opinion is checked
// here.
func Stage(t *testing.T, open func(t *testing.T) admission.Stage, cases ...admission.Case) {
	bare := admission.Case{Effect: &stoplog.Effect{}, Received: time.Now()}
	for i, c := range append(cases, bare) {
		s := open(t)
		name := s.Name()
		for _, r := range name {
			if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
				t.Fatalf("name %q: want snake_case", name)
			}
		}
		before := clone(c)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		first, err := s.Judge(ctx, &c)
		cancel()
		checkOpinion(t, name, i, first, err)
		if diff := cmp.Diff(before, c); diff != "" {
			t.Errorf("%s changed case %d (-before +after):\n%s", name, i, diff)
		}
		second, err2 := s.Judge(t.Context(), &c)
		if first.Decision.Verdict != second.Decision.Verdict || (err == nil) != (err2 == nil) {
			t.Errorf("%s on case %d: %v (%v), asked again: %v (%v)", name, i, first.Decision, err, second.Decision, err2)
		}

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			o, err := s.Judge(gone, &c)
			checkOpinion(t, name, i, o, err)
		}()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Fatalf("%s on case %d: does not respect a cancelled context", name, i)
		}
	}
}

func checkOpinion(t *testing.T, name string, i int, o admission.Opinion, err error) {
	t.Helper()
	d := o.Decision
	switch {
	case err != nil && d.Verdict != stoplog.Deny:
		t.Errorf("%s on case %d: error %v with verdict %s", name, i, err, d.Verdict)
	case err != nil:
	case d.Stage != name:
		t.Errorf("%s on case %d: decided in the name of %q", name, i, d.Stage)
	case d.Reason == "":
		t.Errorf("%s on case %d: %s without a reason", name, i, d.Verdict)
	case d.Verdict != stoplog.Allow && !cmp.Equal(o.Charges, admission.Charges{}):
		t.Errorf("%s on case %d: %s with charges", name, i, d.Verdict)
	}
}

func clone(c admission.Case) admission.Case {
	e := *c.Effect
	e.Recipients = append([]string(nil), e.Recipients...)
	e.Citations = append([]string(nil), e.Citations...)
	c.Effect = &e
	return c
}
