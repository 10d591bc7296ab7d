package spend

import (
	"fmt"
	"time"
)

// Period is one window of a budget: its id, which is part of the account's key, so that a new period is a new account and
// nothing has to be reset; and its end.
type Period struct {
	ID   string    // "2026-11-30T21Z", "2026-11-30", "2026-W49", "2026-11", "total"
	Ends time.Time // zero for "total"
}

// PeriodOf is the period that now falls into. Days, weeks and months begin at midnight of the zone, however long they are;
// hours begin at the zone's full hour.
func PeriodOf(w Window, zone *time.Location, now time.Time) Period {
	local := now.In(zone)
	y, m, d := local.Date()
	switch w {
	case Hour:
		// A full hour of the zone, named in UTC: when clocks go back, one local hour happens twice.
		_, offset := local.Zone()
		unix := now.Unix() + int64(offset)
		start := time.Unix(unix-mod(unix, 3600)-int64(offset), 0).UTC()
		id := start.Format("2006-01-02T15Z")
		if start.Minute() != 0 {
			id = start.Format("2006-01-02T15:04Z")
		}
		return Period{ID: id, Ends: start.Add(time.Hour)}
	case Day:
		return Period{ID: local.Format(time.DateOnly), Ends: midnight(y, m, d+1, zone)}
	case Week:
		isoYear, week := local.ISOWeek()
		days := (8 - int(local.Weekday())) % 7 // to the next Monday
		if days == 0 {
			days = 7
		}
		return Period{ID: fmt.Sprintf("%04d-W%02d", isoYear, week), Ends: midnight(y, m, d+days, zone)}
	case Month:
		return Period{ID: local.Format("2006-01"), Ends: midnight(y, m+1, 1, zone)}
	default:
		return Period{ID: "total"}
	}
}

// midnight is the first instant of a day. Where clocks go forward at midnight, that is not 00:00, and time.Date may answer with
// an instant of the day before.
func midnight(y int, m time.Month, d int, zone *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	want := time.Date(y, m, d, 12, 0, 0, 0, zone).Day()
	for t.Day() != want {
		t = t.Add(15 * time.Minute)
	}
	return t
}

func mod(a, b int64) int64 { return (a%b + b) % b }
