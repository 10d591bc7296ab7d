package spend

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Resets came in the wrong zone, and days of 23 or 25 hours were cut at 24: BerriAI/litellm#34896, #37454,
// langwatch/tasks#458.
func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		window Window
		zone   string
		now    string
		id     string
		ends   string
	}{
		{Day, "Asia/Tokyo", "2026-07-31T14:59:59Z", "2026-07-31", "2026-07-31T15:00:00Z"},
		{Day, "Asia/Tokyo", "2026-07-31T15:00:00Z", "2026-08-01", "2026-08-01T15:00:00Z"},
		{Day, "Europe/Amsterdam", "2026-03-28T23:00:00Z", "2026-03-29", "2026-03-29T22:00:00Z"}, // 23 hours
		{Day, "Europe/Amsterdam", "2026-10-24T22:00:00Z", "2026-10-25", "2026-10-25T23:00:00Z"}, // 25 hours
		{Day, "Africa/Cairo", "2026-04-23T21:59:59Z", "2026-04-23", "2026-04-23T22:00:00Z"},     // no midnight on the 24th
		{Day, "Africa/Cairo", "2026-04-23T22:00:00Z", "2026-04-24", "2026-04-24T21:00:00Z"},
		{Day, "UTC", "2026-12-31T23:59:59Z", "2026-12-31", "2027-01-01T00:00:00Z"},
		{Hour, "UTC", "2026-11-30T21:59:59Z", "2026-11-30T21Z", "2026-11-30T22:00:00Z"},
		{Hour, "Asia/Kolkata", "2026-11-30T21:29:59Z", "2026-11-30T20:30Z", "2026-11-30T21:30:00Z"},
		{Hour, "Europe/Amsterdam", "2026-10-25T00:30:00Z", "2026-10-25T00Z", "2026-10-25T01:00:00Z"}, // 02:30, and
		{Hour, "Europe/Amsterdam", "2026-10-25T01:30:00Z", "2026-10-25T01Z", "2026-10-25T02:00:00Z"}, // 02:30 again
		{Week, "UTC", "2026-11-29T23:00:00Z", "2026-W48", "2026-11-30T00:00:00Z"},                    // Sunday
		{Week, "UTC", "2026-11-30T00:00:00Z", "2026-W49", "2026-12-07T00:00:00Z"},                    // Monday
		{Week, "UTC", "2027-01-01T00:00:00Z", "2026-W53", "2027-01-04T00:00:00Z"},
		{Month, "America/New_York", "2026-12-01T04:59:59Z", "2026-11", "2026-12-01T05:00:00Z"},
		{Month, "America/New_York", "2026-12-01T05:00:00Z", "2026-12", "2027-01-01T05:00:00Z"},
		{Total, "UTC", "2026-12-01T05:00:00Z", "total", "0001-01-01T00:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		p := PeriodOf(c.window, zone(t, c.zone), now)
		if got := p.Ends.UTC().Format(time.RFC3339); p.ID != c.id || got != c.ends {
			t.Errorf("%s in %s at %s: %s until %s, want %s until %s", c.window, c.zone, c.now, p.ID, got, c.id, c.ends)
		}
	}
}

// In any zone, at any time: a period ends after now, and the instant of its end belongs to the next one.
func TestPeriodsFollowEachOther(t *testing.T) {
	zones := []string{
		"UTC", "Asia/Tokyo", "Europe/Amsterdam", "Africa/Cairo", "America/Havana", "Asia/Beirut", "America/Santiago",
		"Asia/Kathmandu", "America/St_Johns", "Pacific/Apia",
	}
	rapid.Check(t, func(t *rapid.T) {
		l := zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		w := rapid.SampledFrom([]Window{Hour, Day, Week, Month}).Draw(t, "window")
		now := time.Unix(rapid.Int64Range(1.2e9, 2.2e9).Draw(t, "now"), 0)
		p := PeriodOf(w, l, now)
		if !p.Ends.After(now) {
			t.Fatalf("%s ends %s, before %s", p.ID, p.Ends, now)
		}
		if last := PeriodOf(w, l, p.Ends.Add(-time.Second)); last.ID != p.ID || !last.Ends.Equal(p.Ends) {
			t.Fatalf("its last second belongs to %s until %s, not to %s until %s", last.ID, last.Ends, p.ID, p.Ends)
		}
		if next := PeriodOf(w, l, p.Ends); next.ID == p.ID {
			t.Fatalf("%s does not end at %s", p.ID, p.Ends)
		}
	})
}
