package admission_test

import (
	"testing"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// An effect that was allowed while only observing is not stopped by a level that rises while it is under way.
func TestObservingIgnoresALaterStop(t *testing.T) {
	st := &store{}
	p := admission.New(st, admission.Options{Observe: true}, allows("s"))
	permit, j := p.Admit(t.Context(), caseOf(stoplog.ClassModel), &stoplog.Exact{}, "c1")
	if permit == nil || j.Observed || j.Decision.Verdict != stoplog.Allow {
		t.Fatalf("%+v, want allowed", j)
	}
	st.level = stoplog.L3
	if d := permit.LastLook(); d != nil {
		t.Errorf("last look: %+v, want nothing enforced", d)
	}
	if err := permit.Settle(t.Context(), admission.Settlement{}); err != nil || len(st.settled) != 1 {
		t.Errorf("settled %v (%v), want the grant that was taken", st.settled, err)
	}
}
