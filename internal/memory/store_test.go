package memory_test

import (
	"path/filepath"
	"testing"

	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/admissiontest"
	"github.com/stoplog/stoplog/internal/memory"
)

func TestStore(t *testing.T) {
	admissiontest.Store(t, func(t *testing.T, clock *admissiontest.Clock) admissiontest.Harness {
		o := memory.Options{Now: clock.Now, LevelFile: filepath.Join(t.TempDir(), "levels")}
		s := memory.New(o)
		return admissiontest.Harness{Store: s, Operate: s, Crash: func(t *testing.T) (admission.Store, admission.Operate) {
			spent, err := s.Balances(t.Context()) // what the receipts would tell
			if err != nil {
				t.Fatal(err)
			}
			s = memory.New(o)
			s.Restore(spent)
			return s, s
		}}
	})
}
