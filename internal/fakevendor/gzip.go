package fakevendor

import (
	"compress/gzip"
	"net/http"
	"strings"
)

// gzipped compresses the answer, frame by frame, for a client that takes it. Real providers do so for whoever asks, and most
// SDKs ask: a proxy that reads usage meets compressed bytes.
func (x *exchange) gzipped(apply func()) {
	if !strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip") {
		apply()
		return
	}
	w := &gzipWriter{ResponseWriter: x.ResponseWriter}
	x.ResponseWriter = w
	apply()
	if w.z != nil {
		_ = w.z.Close()
	}
}

type gzipWriter struct {
	http.ResponseWriter
	z *gzip.Writer // nil until the first byte: an answer without a body stays one
}

func (w *gzipWriter) WriteHeader(status int) {
	if status != http.StatusNoContent && status >= http.StatusOK {
		w.Header().Del("Content-Length")
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *gzipWriter) Write(b []byte) (int, error) {
	if w.z == nil {
		w.z = gzip.NewWriter(w.ResponseWriter)
	}
	return w.z.Write(b)
}

func (w *gzipWriter) Flush() {
	if w.z != nil {
		_ = w.z.Flush()
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
