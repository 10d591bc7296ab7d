package app

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/proxy"
	"github.com/stoplog/stoplog/proxy/connector"
)

// metrics are named as OpenTelemetry's semantic conventions name them, where they do. No label has a value that an agent
// chooses: destinations, actions, reasons and models' price entries come from the configuration.
type metrics struct {
	registry  *prometheus.Registry
	decisions *prometheus.CounterVec
	attempts  *prometheus.HistogramVec
	firstByte *prometheus.HistogramVec
	outcomes  *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	flights   prometheus.Gauge
	breaker   *prometheus.GaugeVec
	level     *prometheus.GaugeVec
	reloads   *prometheus.CounterVec
	failures  *prometheus.CounterVec
	info      *prometheus.GaugeVec
}

var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}

func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoplog_decisions_total", Help: "Decisions by destination, class, verdict and reason."},
			[]string{"destination", "class", "verdict", "reason", "observed"}),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_client_request_duration_seconds", Help: "Time of one attempt at a destination, to the end of its answer.", Buckets: seconds},
			[]string{"destination", "class", "http_response_status_code"}),
		firstByte: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gen_ai_server_time_to_first_token_seconds", Help: "Time to the first byte of a model's answer.", Buckets: seconds},
			[]string{"destination"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoplog_outcomes_total", Help: "Outcomes of attempts."},
			[]string{"destination", "class", "outcome", "health"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gen_ai_client_token_usage_total", Help: "Model tokens, as the provider counted them (estimated=true: as Stoplog counted them)."},
			[]string{"destination", "gen_ai_token_type", "estimated"}),
		flights: prometheus.NewGauge(prometheus.GaugeOpts{Name: "http_server_active_requests", Help: "Requests of agents under way."}),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stoplog_breaker_state", Help: "0 closed (traffic flows), 1 open, 2 half-open."}, []string{"destination", "class"}),
		level:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stoplog_level", Help: "Kill switch level by scope."}, []string{"scope"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoplog_config_reloads_total", Help: "Configurations taken up or refused."}, []string{"result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoplog_internal_failures_total", Help: "Things that went wrong inside, by what was being done."},
			[]string{"operation"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stoplog_config_info", Help: "1 for the configuration in force."}, []string{"version"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stoplog_build_info", Help: "1 for this build."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.decisions, m.attempts, m.firstByte, m.outcomes, m.tokens, m.flights, m.breaker, m.level, m.reloads, m.failures, m.info, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) config(version string) {
	m.info.Reset()
	m.info.WithLabelValues(version).Set(1)
}

// events connects the proxy to metrics and the log. Looking up a labelled series costs more than counting in it, so the
// series of the common cases are kept.
func (m *metrics) events(log *slog.Logger) proxy.Events {
	var decided, ended sync.Map
	return proxy.Events{
		Decided: func(d *proxy.Destination, e *stoplog.Effect, dec stoplog.Decision, observed bool) {
			type key struct {
				dest     string
				class    stoplog.Class
				verdict  stoplog.Verdict
				reason   stoplog.Reason
				observed bool
			}
			k := key{verdict: dec.Verdict, reason: dec.Reason, observed: observed}
			if d != nil {
				k.dest = d.Name
			}
			if e != nil {
				k.class = e.Class
			}
			c, ok := decided.Load(k)
			if !ok {
				c, _ = decided.LoadOrStore(k, m.decisions.WithLabelValues(k.dest, k.class.String(), k.verdict.String(), string(k.reason), strconv.FormatBool(observed)))
			}
			c.(prometheus.Counter).Inc()
		},
		Attempt: func(d *proxy.Destination, e *stoplog.Effect, r connector.Result, status int, took, first time.Duration) {
			type key struct {
				dest    string
				class   stoplog.Class
				status  int
				outcome stoplog.Outcome
				health  stoplog.Health
			}
			type series struct {
				n        prometheus.Counter
				duration prometheus.Observer
			}
			k := key{d.Name, e.Class, status, r.Outcome, r.Health}
			v, ok := ended.Load(k)
			if !ok {
				v, _ = ended.LoadOrStore(k, series{
					m.outcomes.WithLabelValues(k.dest, k.class.String(), k.outcome.String(), k.health.String()),
					m.attempts.WithLabelValues(k.dest, k.class.String(), strconv.Itoa(status)),
				})
			}
			s := v.(series)
			s.n.Inc()
			s.duration.Observe(took.Seconds())
			if e.Class == stoplog.ClassModel {
				if first > 0 {
					m.firstByte.WithLabelValues(d.Name).Observe(first.Seconds())
				}
				if r.Usage.Known {
					est := strconv.FormatBool(r.Usage.Estimated)
					m.tokens.WithLabelValues(d.Name, "input", est).Add(float64(r.Usage.Input))
					m.tokens.WithLabelValues(d.Name, "output", est).Add(float64(r.Usage.Output))
				}
			}
		},
		Failed: func(what string, err error) {
			m.failures.WithLabelValues(what).Inc()
			log.Error("failed to "+what, "error", err)
		},
		Flight: func(n int) { m.flights.Add(float64(n)) },
	}
}
