package operator

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/stoplog/stoplog/receipts"
)

// followEvery is how often a follower looks for new receipts.
const followEvery = 200 * time.Millisecond

// getReceipts streams leaves, one per line, exactly as they are hashed.
func (s *server) getReceipts(w http.ResponseWriter, r *http.Request, _ identity) error {
	q, follow, err := parseQuery(r.URL.Query())
	if err != nil {
		return badRequest(err)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var line []byte
	started := false
	write := func(x *receipts.Receipt) error {
		line, err = x.AppendJSON(line[:0])
		if err != nil {
			return err
		}
		started = true
		_, err = w.Write(append(line, '\n'))
		return err
	}
	flush := http.NewResponseController(w).Flush
	next, err := Select(r.Context(), s.Receipts, Cursor{}, q, write)
	q.Tail = 0
	for err == nil && follow {
		started = true
		_ = flush()
		if !pause(r.Context(), followEvery) {
			return nil
		}
		next, err = Select(r.Context(), s.Receipts, next, q, write)
	}
	if err != nil && started {
		// The status is out already. Cutting the connection is how the reader learns that this is not the end.
		if r.Context().Err() == nil {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	return err
}

// getReceipt answers one receipt, or all of an operation.
func (s *server) getReceipt(w http.ResponseWriter, r *http.Request, _ identity) error {
	found, err := Find(r.Context(), s.Receipts, r.PathValue("ref"))
	if err != nil {
		return err
	}
	out := List[json.RawMessage]{}
	for _, x := range found {
		leaf, err := x.AppendJSON(nil)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, leaf)
	}
	return answer(w, out)
}
