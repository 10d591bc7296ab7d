// Package demo shows Stoplog at work: a real sidecar, fake vendors on loopback, real HTTP calls. It tells what happens in plain
// words and checks each claim it makes; a claim that does not hold makes the demo fail.
package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/internal/operator"
)

// Options of a demo.
type Options struct {
	Out     io.Writer // narration; nil = silent
	Pace    bool      // pause between the scenes, for reading
	Version string
	Paint   func(color, text string) string // nil = no colours
}

// Result is what was shown and whether all of it held.
type Result struct {
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	Scenes  []Scene `json:"scenes"`
}

// Scene is one part of the demo.
type Scene struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	OK     bool    `json:"ok"`
	Claims []Claim `json:"claims"`
	Error  string  `json:"error,omitempty"` // what kept the scene from ending
}

// Claim is one checked statement.
type Claim struct {
	Text string `json:"text"`
	OK   bool   `json:"ok"`
}

// scenes in the order in which they are played. Each leaves the sidecar at L0 with nothing held.
var scenes = []struct {
	name, title string
	play        func(context.Context, *stage) error
}{
	{"stream", "A model's answer streams through, token by token", streamedModel},
	{"hold", "An outreach freeze holds a message; a person releases it, byte for byte", heldMessage},
	{"park", "A write freeze parks a write; reads go on", parkedWrite},
	{"breaker", "A failing destination is left alone, and comes back by itself", breakerOpens},
	{"spend", "Parallel calls meet a spend cap", spendCap},
	{"lost_reply", "A reply is lost; the write does not happen twice", lostReply},
	{"tamper", "Somebody edits a receipt", tamperedReceipt},
}

// Run plays all scenes. The error says that the stage could not be built; what failed in a scene is in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	began := time.Now()
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Paint == nil {
		o.Paint = func(_, text string) string { return text }
	}
	s, err := build(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer s.close() //nolint:contextcheck // it ends also when ctx is done
	s.say("Stoplog %s. Everything below is real: a sidecar, fake vendors on loopback, and calls through it.", o.Version)
	s.say("The agent holds no credential: the sidecar sets it. Nothing leaves this machine.")

	res := &Result{OK: true}
	for i, sc := range scenes {
		s.pause()
		s.scene = &Scene{Name: sc.name, Title: sc.title, OK: true, Claims: []Claim{}}
		fmt.Fprintf(o.Out, "\n%s\n", o.Paint("1", fmt.Sprintf("%d. %s", i+1, sc.title)))
		err := sc.play(ctx, s)
		if err != nil {
			s.scene.OK, s.scene.Error = false, err.Error()
			s.say("%s %v", o.Paint("31", "could not go on:"), err)
		}
		res.OK = res.OK && s.scene.OK
		res.Scenes = append(res.Scenes, *s.scene)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	res.Seconds = time.Since(began).Seconds()
	s.summary(res)
	return res, nil
}

// stage is everything the scenes play on.
type stage struct {
	Options
	dir    string
	fleet  *fakevendor.Fleet
	app    *app.App
	people *operator.Client // the operator, over the Unix socket
	agent  *http.Client
	scene  *Scene
}

func build(ctx context.Context, o Options) (_ *stage, err error) {
	s := &stage{Options: o, agent: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{Proxy: nil}}}
	defer func() { //nolint:contextcheck // it ends also when ctx is done
		if err != nil {
			s.close()
		}
	}()
	s.dir, err = os.MkdirTemp("", "stoplog-demo-")
	if err != nil {
		return nil, err
	}
	s.fleet, err = fakevendor.Start(context.WithoutCancel(ctx), fakevendor.Options{
		Vendors: []string{"openai", "slack", "github", "jira", "playground"}, FrameInterval: 40 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	config, err := s.writeConfig()
	if err != nil {
		return nil, err
	}
	s.app, err = app.Start(ctx, app.Options{
		Config: []string{config}, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: filepath.Join(s.dir, "data"),
		Tenant: "acme", Agent: "demo-agent", Version: o.Version, LogOut: io.Discard,
	})
	if err != nil {
		return nil, err
	}
	s.people = operator.Dial(s.app.OperatorSocket())
	return s, nil
}

func (s *stage) close() {
	if s.app != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = s.app.Close(ctx)
		cancel()
	}
	if s.fleet != nil {
		s.fleet.Close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// say tells one thing that happens.
func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.Out, "   "+format+"\n", args...) }

// claim states something and checks it.
func (s *stage) claim(ok bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.scene.Claims = append(s.scene.Claims, Claim{Text: text, OK: ok})
	mark := s.Paint("32", "✓")
	if !ok {
		mark = s.Paint("31", "✗ NOT TRUE:")
		s.scene.OK = false
	}
	fmt.Fprintf(s.Out, "   %s %s\n", mark, text)
}

func (s *stage) pause() {
	if s.Pace {
		time.Sleep(1500 * time.Millisecond)
	}
}

func (s *stage) summary(res *Result) {
	fmt.Fprintf(s.Out, "\n%s\n", s.Paint("1", "Summary"))
	for _, sc := range res.Scenes {
		good := 0
		for _, c := range sc.Claims {
			if c.OK {
				good++
			}
		}
		word := s.Paint("32", "held  ")
		if !sc.OK {
			word = s.Paint("31", "FAILED")
		}
		fmt.Fprintf(s.Out, "   %s  %d/%d  %s\n", word, good, len(sc.Claims), sc.Title)
	}
	fmt.Fprintf(s.Out, "   %.1f seconds\n", res.Seconds)
	if !res.OK {
		return
	}
	fmt.Fprint(s.Out, strings.TrimPrefix(`
What to do next
   stoplog up                        run the sidecar; it prints the base URL of each destination and a first curl
   stoplog config default            the configuration to start from
   stoplog receipts tail -f          watch decisions as they are made
   stoplog level raise L1            hold all messages; stoplog holds list shows them
   stoplog explain RECEIPT           why an effect was decided as it was
`, ""))
}
