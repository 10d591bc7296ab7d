package app

import (
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/stoplog/stoplog/configs"
)

// adminHandler serves health and metrics beside the operator's API, which guards itself.
func (a *App) adminHandler(api http.Handler) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { a.report(w, a.health()) })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h := a.health()
		if !a.ready.Load() {
			h["ready"] = "not serving yet"
		}
		a.report(w, h)
	})
	m.Handle("GET /metrics", a.metrics.handler())
	m.Handle("/", api)
	return m
}

// health is empty when all is well; otherwise what is wrong, by part.
func (a *App) health() map[string]string {
	h := map[string]string{}
	if err := a.receipts.Err(); err != nil {
		h["receipts"] = err.Error()
	}
	if err := a.store.Warning(); err != nil {
		h["levels"] = err.Error()
	}
	return h
}

func (a *App) report(w http.ResponseWriter, wrong map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	status := "ok"
	if len(wrong) > 0 {
		status = "failing"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"status": status, "wrong": wrong, "version": a.options.Version, "config": a.Snapshot().Version(), "observe": a.options.Observe, "mode": "single-node",
	})
}

func newLogger(w io.Writer, b *configs.Bootstrap) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(b.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if b.LogJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func (a *App) httpErrors() *log.Logger { return slog.NewLogLogger(a.log.Handler(), slog.LevelDebug) }

type onceFlag struct{ done atomic.Bool }

func (f *onceFlag) first() bool { return f.done.CompareAndSwap(false, true) }
