package operator

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/receipts"
)

func (s *server) getBreakers(w http.ResponseWriter, r *http.Request, _ identity) error {
	views, err := s.Operate.Breakers(r.Context())
	if err != nil {
		return err
	}
	out := List[Breaker]{Items: make([]Breaker, 0, len(views))}
	for _, v := range views {
		out.Items = append(out.Items, Breaker{
			Destination: v.Destination, Class: v.Class, State: v.State.String(), Epoch: v.Epoch,
			Since: instant(v.Since), RetryAt: instant(v.RetryAt), Trips: v.Trips, ProbesGood: v.ProbesGood,
			Successes: v.Successes, Failures: v.Fails, Ramp: v.Ramp,
		})
	}
	return answer(w, out)
}

// postBreaker opens a breaker or starts its probing. Nobody closes one by hand: only successful probes do.
func (s *server) postBreaker(w http.ResponseWriter, r *http.Request, who identity) error {
	destination, verb := splitVerb(r.PathValue("target"))
	if verb != "force" {
		return refuse(http.StatusNotFound, stoplog.ReasonNotFound, "no such call")
	}
	var c BreakerForce
	err := read(r, &c)
	if err != nil {
		return err
	}
	var to admission.BreakerState
	switch c.To {
	case "open":
		to = admission.BreakerOpen
	case "half_open":
		to = admission.BreakerHalfOpen
	default:
		return badRequest(fmt.Errorf("to %q: want open or half_open; a breaker closes by successful probes only", c.To))
	}
	why, err := reason(c.Reason, true)
	if err != nil {
		return err
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	if !s.configured(destination) {
		return refuse(http.StatusNotFound, stoplog.ReasonNotFound, "no destination "+destination)
	}
	note := map[string]string{"destination": destination, "to": c.To, "reason": why, "actor": who.name}
	if c.Class != "" {
		note["class"] = c.Class
	}
	_, err = s.record(r.Context(), receipts.TypeBreaker, note)
	if err != nil {
		return err
	}
	err = s.Operate.Force(r.Context(), destination, c.Class, to)
	if err != nil {
		note["failed"] = string(stoplog.ReasonOf(err))
		s.recordFailure(r.Context(), receipts.TypeBreaker, note)
		return err
	}
	return s.getBreakers(w, r, who)
}

// splitVerb takes "slack:force" apart. Destination names and operation ids have no colon.
func splitVerb(target string) (name, verb string) {
	name, verb, _ = strings.Cut(target, ":")
	return name, verb
}

func (s *server) configured(destination string) bool {
	for _, d := range s.Config.Destinations() {
		if d.Name == destination {
			return true
		}
	}
	return false
}
