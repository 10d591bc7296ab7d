package stoplog

// Exact is a request as it leaves, byte for byte. What was inspected, approved and held is an Exact, and nothing else is
// ever sent. Credentials are not part of it: they are headers that are set again at each transmission.
type Exact struct {
	Method string
	Host   string // authority of the destination, lower case, with port if not the scheme's own
	Target string // origin-form request target, as received ("/v1/charges?limit=3")
	Header []Field
	Body   []byte
}

// Field is one header field; order and case are kept.
type Field struct{ Name, Value string }

// Answer is what a destination answered, as far as it is kept for replay.
type Answer struct {
	Status int
	Header []Field // allow-listed
	Body   []byte
}
