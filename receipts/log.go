package receipts

import "context"

// Position is where a receipt stands.
type Position struct {
	Log  string // origin of the log
	Seq  int64
	Leaf [32]byte // RFC 6962 leaf hash
}

// Appender writes receipts.
type Appender interface {
	// Append returns when the receipts are durable, all in one group, or with an error and then they MUST NOT be assumed
	// to exist. It fills in Log, Seq, Time and Mono.
	Append(ctx context.Context, r ...*Receipt) ([]Position, error)
	// Enqueue writes without waiting: the receipt becomes durable within the log's interval (50 ms). It fails only when
	// the log takes no more (write error, full disk, closed); then an effect that needs a record must not happen.
	// The receipt MUST NOT be changed afterwards.
	Enqueue(r *Receipt) (Position, error)
	// Err is non-nil while the log cannot take records.
	Err() error
}
