package killswitch

import (
	"fmt"

	"github.com/stoplog/stoplog"
)

// mostEpoch leaves room: an epoch at the end of the numbers could not be followed by a newer one.
const mostEpoch = 1 << 62

// Check says what is wrong with a record that came from outside. Merging is safe only for what Check passes: a decision that
// answers raises from its own future, for example, would lower what nobody has seen.
func (r Record) Check() error {
	d := r.Decision
	switch {
	case d == (Decision{}):
	case d.Epoch == 0 || d.Epoch > mostEpoch:
		return fmt.Errorf("decision: epoch %d: want 1 to 2^62", d.Epoch)
	case d.Acked >= d.Epoch:
		return fmt.Errorf("decision: acked %d: is not before its epoch %d", d.Acked, d.Epoch)
	case d.Level > stoplog.L3:
		return fmt.Errorf("decision: level %d: want 0 to 3", d.Level)
	}
	for i, x := range r.Raises {
		switch {
		case x == (Raise{}):
		case i == 0 || int(x.Level) != i:
			return fmt.Errorf("raise %d: level %d: want its own place", i, x.Level)
		case x.Epoch == 0 || x.Epoch > mostEpoch:
			return fmt.Errorf("raise %d: epoch %d: want 1 to 2^62", i, x.Epoch)
		}
	}
	return nil
}
