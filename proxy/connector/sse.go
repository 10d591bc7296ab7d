package connector

import "bytes"

// maxFrame bounds one event of a stream, and a document that is kept for reading.
const maxFrame = 1 << 20

// eventReader splits a text/event-stream (WHATWG HTML, 9.2.6) as it passes. It keeps at most one event of maxFrame bytes.
type eventReader struct {
	emit func(data []byte) // one event's data; valid during the call
	skip func(n int)       // an event beyond maxFrame was dropped, n bytes of data

	line    []byte // unfinished line
	over    int    // bytes of it beyond maxFrame
	data    []byte // data lines of the unfinished event, joined by line feeds
	hasData bool
	started bool
	cr      bool // the last byte was a carriage return
	dropped int  // bytes of the event's data that were not kept
}

func (r *eventReader) write(b []byte) {
	for len(b) > 0 {
		if r.cr {
			r.cr = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			end = len(b)
		}
		if i := bytes.IndexByte(b[:end], '\r'); i >= 0 {
			end = i
		}
		r.keep(b[:end])
		if end == len(b) {
			return
		}
		r.cr = b[end] == '\r'
		b = b[end+1:]
		r.endLine()
	}
}

func (r *eventReader) keep(b []byte) {
	if room := maxFrame - len(r.line); len(b) > room {
		r.over += len(b) - room
		b = b[:room]
	}
	r.line = append(r.line, b...)
}

func (r *eventReader) endLine() {
	line, over := r.line, r.over
	r.line, r.over = r.line[:0], 0
	if !r.started {
		r.started = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		r.endEvent()
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	if string(name) != "data" {
		return
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	if r.hasData {
		value = append([]byte("\n"), value...)
	}
	r.hasData = true
	if over > 0 || r.dropped > 0 || len(r.data)+len(value) > maxFrame {
		r.dropped += over + len(value)
		return
	}
	r.data = append(r.data, value...)
}

func (r *eventReader) endEvent() {
	switch {
	case r.dropped > 0:
		r.skip(r.dropped + len(r.data))
	case r.hasData:
		r.emit(r.data)
	}
	r.data, r.hasData, r.dropped = r.data[:0], false, 0
	if cap(r.data) > 1<<16 {
		r.data = nil
	}
	if cap(r.line) > 1<<16 {
		r.line = nil
	}
}

// end handles an event whose blank line is missing: readers differ, and its figures count all the same.
func (r *eventReader) end() {
	if len(r.line) > 0 {
		r.endLine()
	}
	r.endEvent()
}

// elementReader splits the elements of a JSON array as they pass: a stream of answers that was not asked for as events.
type elementReader struct {
	emit func(element []byte)
	skip func(n int)

	buf     []byte
	dropped int
	depth   int
	text    bool // inside a string
	escape  bool
}

func (r *elementReader) write(b []byte) {
	for _, c := range b {
		if r.depth > 1 || r.depth == 1 && (c == '{' || c == '[') {
			if len(r.buf) < maxFrame {
				r.buf = append(r.buf, c)
			} else {
				r.dropped++
			}
		}
		switch {
		case r.escape:
			r.escape = false
		case r.text:
			r.escape = c == '\\'
			r.text = c != '"'
		case c == '"':
			r.text = true
		case c == '{' || c == '[':
			r.depth++
		case (c == '}' || c == ']') && r.depth > 0:
			r.depth--
			if r.depth == 1 {
				r.element()
			}
		}
	}
}

func (r *elementReader) element() {
	if r.dropped > 0 {
		r.skip(r.dropped + len(r.buf))
	} else {
		r.emit(r.buf)
	}
	r.buf, r.dropped = r.buf[:0], 0
}

// end handles an element that was cut.
func (r *elementReader) end() {
	if len(r.buf) > 0 {
		r.skip(len(r.buf) + r.dropped)
	}
}
