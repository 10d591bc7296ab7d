package fakevendor

import (
	"encoding/json"
	"net/http"
)

// Control gives the fleet over HTTP to tests in other languages:
//
//	GET    /vendors           {name: root URL}
//	POST   /faults            a Fault, or an array of them
//	DELETE /faults            clear all
//	GET    /effects?vendor=   what the vendor did
//	GET    /requests?vendor=  what reached it
//	POST   /reset             forget everything
func (f *Fleet) Control() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /vendors", func(w http.ResponseWriter, _ *http.Request) {
		urls := map[string]string{}
		for _, n := range f.Vendors() {
			urls[n] = f.URL(n)
		}
		controlJSON(w, http.StatusOK, urls)
	})
	m.HandleFunc("POST /faults", f.postFaults)
	m.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		f.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	})
	m.HandleFunc("GET /effects", func(w http.ResponseWriter, r *http.Request) {
		list(w, f, r.FormValue("vendor"), f.Effects)
	})
	m.HandleFunc("GET /requests", func(w http.ResponseWriter, r *http.Request) {
		list(w, f, r.FormValue("vendor"), f.Requests)
	})
	m.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		f.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	return m
}

func (f *Fleet) postFaults(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	err := d.Decode(&raw)
	var faults []Fault
	if err == nil {
		if raw[0] != '[' {
			raw = append(append([]byte{'['}, raw...), ']')
		}
		err = json.Unmarshal(raw, &faults)
	}
	for i := 0; err == nil && i < len(faults); i++ {
		err = f.AddFault(faults[i])
	}
	if err != nil {
		controlJSON(w, http.StatusBadRequest, obj{"error": err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// list answers with an array, also when it is empty. A wrong name is an error: an empty list would let a test pass.
func list[T any](w http.ResponseWriter, f *Fleet, vendor string, get func(string) []T) {
	if f.Handler(vendor) == nil {
		controlJSON(w, http.StatusNotFound, obj{"error": errNoVendor.Error()})
		return
	}
	items := get(vendor)
	if items == nil {
		items = []T{}
	}
	controlJSON(w, http.StatusOK, items)
}

func controlJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
