package demo

import (
	"bytes"
	"testing"
	"time"
)

// The demo is a promise: every claim in it holds, offline, in less than half a minute.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	res, err := Run(t.Context(), Options{Out: &out, Version: "test"})
	t.Logf("%s", out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range res.Scenes {
		if !sc.OK || len(sc.Claims) == 0 {
			t.Errorf("scene %s: %s %+v", sc.Name, sc.Error, sc.Claims)
		}
	}
	if !res.OK || len(res.Scenes) != 7 {
		t.Errorf("ok %v with %d scenes", res.OK, len(res.Scenes))
	}
	if d := time.Since(began); d > limit {
		t.Errorf("took %s", d)
	}
}
