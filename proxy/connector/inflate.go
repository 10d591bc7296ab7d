package connector

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// ReadableCodings are the content codings of answers that an Observer undoes by itself. A destination that answers in
// another one is passed on unread: usage is then estimated and rules that need the body cannot hold.
const ReadableCodings = "gzip, deflate"

// inflater undoes a content coding while the bytes pass. It owns one goroutine, from its first write until end.
type inflater struct {
	coding string
	to     func([]byte)
	w      *io.PipeWriter
	done   chan struct{}
	whole  bool // the coded stream was read to its end; valid after done
}

// answerCoding is the coding of an answer: "" for none.
func answerCoding(h http.Header) string {
	c := strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ",")))
	switch c {
	case "identity":
		return ""
	case "x-gzip":
		return "gzip"
	}
	return c
}

func (z *inflater) write(b []byte) {
	if z.w == nil {
		var r *io.PipeReader
		r, z.w = io.Pipe()
		z.done = make(chan struct{})
		go z.run(r)
	}
	_, _ = z.w.Write(b) // after an error the reader discards; the bytes still reach the agent
}

// end waits until all that was written has been handled.
func (z *inflater) end() {
	if z.w == nil {
		return
	}
	_ = z.w.Close()
	<-z.done
}

func (z *inflater) run(pr *io.PipeReader) {
	defer close(z.done)
	defer pr.Close()
	coded := bufio.NewReaderSize(pr, 4096)
	r, err := openCoding(z.coding, coded)
	if err != nil {
		return
	}
	buf := make([]byte, 16<<10)
	decoded := int64(0)
	for decoded < maxDecoded {
		n, err := r.Read(buf)
		z.to(buf[:n])
		decoded += int64(n)
		if err != nil {
			z.whole = err == io.EOF
			return
		}
	}
}

func openCoding(coding string, r *bufio.Reader) (io.Reader, error) {
	if coding == "gzip" {
		return gzip.NewReader(r)
	}
	// "deflate" is zlib (RFC 9110 8.4.1.2), but some servers send the bare stream.
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}
