package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Colours carry no meaning that the words do not carry.
const (
	plain  = ""
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

func (c *console) paint(color, s string) string {
	if !c.color || color == plain || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// colorOf is the colour of a verdict, level or state.
func colorOf(word string) string {
	switch word {
	case "allow", "closed", "L0", "confirmed", "replay", "ok":
		return green
	case "hold", "park", "half_open", "L1", "waiting", "proposed", "dispatching":
		return yellow
	case "deny", "open", "L2", "L3", "unknown", "rejected", "error", "manual_review":
		return red
	}
	return plain
}

// clean keeps a text from another place from moving the cursor or lying about the lines around it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return '\ufffd'
		}
		return r
	}, s)
}

// table aligns columns. A cell that is a state word is coloured after its width is known.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (c *console) print(t *table) {
	width := make([]int, len(t.head))
	for i, h := range t.head {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, r := range t.rows {
		for i := range r {
			r[i] = clean(r[i])
			if r[i] == "" {
				r[i] = "-"
			}
			width[i] = max(width[i], utf8.RuneCountInString(r[i]))
		}
	}
	line := func(cells []string, color func(string) string) {
		var b strings.Builder
		for i, s := range cells {
			b.WriteString(c.paint(color(s), s))
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(s)+2))
			}
		}
		fmt.Fprintln(c.out, b.String())
	}
	line(t.head, func(string) string { return bold })
	for _, r := range t.rows {
		line(r, colorOf)
	}
}

// json prints one document. Its shape is the API's and stable.
func (c *console) json(v any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (c *console) time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(c.zone).Format("2006-01-02 15:04:05 MST")
}

func (c *console) timeOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return c.time(*t)
}

// until is how far away a time is.
func (c *console) until(t *time.Time) string {
	if t == nil {
		return ""
	}
	d := t.Sub(c.now()).Round(time.Second)
	if d < 0 {
		return "now"
	}
	return "in " + d.String()
}

// amount writes a quantity of a budget's unit.
func amount(n int64, unit string) string {
	switch unit {
	case "usd_micro":
		return fmt.Sprintf("$%d.%06d", n/1_000_000, n%1_000_000)
	case "":
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
