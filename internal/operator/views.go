package operator

import (
	"net/http"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

func (s *server) getBudgets(w http.ResponseWriter, r *http.Request, _ identity) error {
	balances, err := s.Operate.Balances(r.Context())
	if err != nil {
		return err
	}
	out := List[Budget]{Items: make([]Budget, 0, len(balances))}
	for _, b := range balances {
		out.Items = append(out.Items, Budget{
			Budget: b.Budget, Key: b.Key, Unit: b.Unit, Limit: b.Limit, Used: b.Used, Held: b.Held,
			Left: max(0, b.Limit-b.Used-b.Held), Ends: instant(b.Ends),
		})
	}
	return answer(w, out)
}

func (s *server) getDestinations(w http.ResponseWriter, r *http.Request, _ identity) error {
	views, err := s.Operate.Destinations(r.Context())
	if err != nil {
		return err
	}
	byName := map[string]admission.DestinationView{}
	for _, v := range views {
		byName[v.Destination] = v
	}
	configured := s.Config.Destinations()
	out := List[DestinationStatus]{Items: make([]DestinationStatus, 0, len(configured))}
	for _, d := range configured {
		v := byName[d.Name]
		st := DestinationStatus{Destination: d, Tokens: v.Tokens, Seats: v.Seats, SeatLimit: v.SeatLimit}
		for _, t := range v.Tenants {
			st.Tenants = append(st.Tenants, TenantStatus{Tenant: t.Tenant, Seats: t.Seats, Weight: t.Weight})
		}
		out.Items = append(out.Items, st)
	}
	return answer(w, out)
}

func (s *server) getConfig(w http.ResponseWriter, _ *http.Request, _ identity) error {
	y, err := s.Config.Dump()
	if err != nil {
		return err
	}
	return answer(w, ConfigDump{Version: s.Config.Version(), YAML: string(y)})
}

// postReload reads the files anew: whole, or not at all.
func (s *server) postReload(w http.ResponseWriter, r *http.Request, who identity) error {
	var none struct{}
	err := read(r, &none)
	if err != nil {
		return err
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	before := s.Config.Version()
	version, err := s.Config.Reload(r.Context(), who.name)
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, stoplog.ReasonMalformedBody,
			"the configuration in force stays: "+err.Error())
	}
	return answer(w, ConfigVersion{Version: version, Changed: version != before})
}
