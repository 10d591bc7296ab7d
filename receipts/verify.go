package receipts

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/stoplog/stoplog"
)

// Kind is what Verify found.
type Kind string

const (
	Edited         Kind = "edited"          // bytes of records are not what was written or signed
	Truncated      Kind = "truncated"       // records at the end are gone that were signed or followed
	MissingSegment Kind = "missing_segment" // a file is gone or renamed
	MissingLog     Kind = "missing_log"     // a whole log is gone without a log.prune record
	Forked         Kind = "forked"          // two writers: records behind the end that a successor saw, or two successors
	Foreign        Kind = "foreign"         // a log that the pinned identity did not give birth to, or a checkpoint of another key
	Unordered      Kind = "unordered"       // sequence numbers, origins or ledger states do not follow

	// Facts that are no tampering.
	Pruned      Kind = "pruned"       // a log was removed as its log.prune record says
	FailedWrite Kind = "failed_write" // a write failed and nothing but it is missing
	TornTail    Kind = "torn_tail"    // a crash cut an unacknowledged write short; its bytes were kept aside
	Unsealed    Kind = "unsealed"     // the log was not closed: a crash, or it is being written
	Unsigned    Kind = "unsigned"     // records that no checkpoint covers; a successor may vouch for them
)

// Finding is one thing that Verify has to say.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Notice bool   `json:"notice,omitempty"` // a fact, not a fault
	Log    string `json:"log"`              // origin, or folder where the origin cannot be read
	File   string `json:"file,omitempty"`   // below the data directory
	Seq    int64  `json:"seq"`              // first record concerned; -1 = none
	Detail string `json:"detail"`
}

func (f Finding) String() string {
	s := string(f.Kind) + ": " + f.Log
	if f.Seq >= 0 {
		s += " record " + strconv.FormatInt(f.Seq, 10)
	}
	if f.File != "" {
		s += " (" + f.File + ")"
	}
	return s + ": " + f.Detail
}

// Report is what Verify found.
type Report struct {
	Logs     int       `json:"logs"`
	Records  int64     `json:"records"`
	Findings []Finding `json:"findings"`
}

// Err is nil if nothing but notices was found.
func (r *Report) Err() error {
	var errs []error
	for _, f := range r.Findings {
		if !f.Notice {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

// Verify checks the logs in data directory dir offline, against the identity key (identity.pub) that the verifier has
// pinned: without it everything could have been made anew by anybody.
//
// It checks that each record is canonical and in its place, that each COMMIT has the root of its records, that each
// checkpoint is signed by the key its log was born with and that each birth is signed by the identity; that the logs
// follow one another without a gap; and that operations only took legal steps, intent before outcome. It cannot see
// records cut from the end of the newest log together with the checkpoint over them: only somebody who has seen a
// later checkpoint can.
func Verify(ctx context.Context, dir, identity string) (*Report, error) {
	return VerifyFS(ctx, os.DirFS(dir), identity)
}

// VerifyFS is Verify of the data directory fsys.
func VerifyFS(ctx context.Context, fsys fs.FS, identity string) (*Report, error) {
	_, err := note.NewVerifier(strings.TrimSpace(identity))
	if err != nil {
		return nil, fmt.Errorf("verify needs the pinned identity key: %w", err)
	}
	v := &verifier{
		r: NewReader(fsys), identity: strings.TrimSpace(identity), report: &Report{Findings: []Finding{}},
		states: map[stoplog.OperationID]string{}, pruned: map[string]*Receipt{},
	}
	names, err := v.r.logs()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l, err := v.log(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		if l != nil {
			v.logs = append(v.logs, l)
		}
	}
	v.chain()
	v.report.Logs = len(v.logs)
	return v.report, nil
}

type verifier struct {
	r        *Reader
	identity string
	report   *Report
	logs     []*checked
	states   map[stoplog.OperationID]string
	partial  bool                // records are missing: an operation may have begun in them
	pruned   map[string]*Receipt // by origin
}

func (v *verifier) find(k Kind, log, file string, seq int64, format string, args ...any) {
	f := Finding{Kind: k, Log: log, File: file, Seq: seq, Detail: fmt.Sprintf(format, args...)}
	switch k {
	case Pruned, FailedWrite, TornTail, Unsealed, Unsigned:
		f.Notice = true
	default:
		v.partial = true
	}
	v.report.Findings = append(v.report.Findings, f)
}

// chain checks how the logs follow one another.
func (v *verifier) chain() {
	byOrigin := map[string]*checked{}
	for _, l := range v.logs {
		byOrigin[l.origin] = l
	}
	followed := map[string]*checked{}
	for i, l := range v.logs {
		if l.birth == nil {
			continue
		}
		prev := l.birth.Note[NotePrev]
		switch other := followed[prev]; {
		case prev == "" && i > 0:
			v.find(Forked, l.origin, l.file(0), 0, "it claims to be the first log, but %s is older", v.logs[0].origin)
		case prev == "":
		case other != nil:
			v.find(Forked, l.origin, l.file(0), 0, "it follows %s, and so does %s", prev, other.origin)
		case byOrigin[prev] != nil:
			v.link(byOrigin[prev], l)
		case v.pruned[prev] != nil:
			v.gone(prev, l)
		default:
			v.find(MissingLog, prev, path.Join("log", path.Base(prev)), -1,
				"%s follows it, but it is not there and no log.prune record says that it was removed", l.origin)
		}
		followed[prev] = l
	}
	for i, l := range v.logs {
		v.tail(l, followed[l.origin], i == len(v.logs)-1)
	}
}

// link compares a log with what its successor saw of it.
func (v *verifier) link(prev, next *checked) {
	n := next.birth.Note
	size, _ := strconv.ParseInt(n[NotePrevSize], 10, 64)
	prev.vouched = size
	switch {
	case prev.broken:
	case prev.tree.Size() < size:
		v.find(Truncated, prev.origin, prev.file(prev.next-1), prev.tree.Size(),
			"%s saw %d records, only %d are there: segment %08d.seg or the end of %08d.seg is gone",
			next.origin, size, prev.tree.Size(), prev.next, prev.next-1)
	case prev.rootAt(size) != n[NotePrevRoot]:
		v.find(Edited, prev.origin, "", -1, "its first %d records are not the ones that %s saw", size, next.origin)
	case prev.tree.Size() > size:
		v.find(Forked, prev.origin, prev.file(prev.next-1), size,
			"%d records were added after %s had followed it at %d: two processes wrote at the same time",
			prev.tree.Size()-size, next.origin, size)
	}
	if t := n[NoteTorn]; t != "" {
		v.find(TornTail, prev.origin, "", size, "%s bytes of an unacknowledged write were cut off after a crash", t)
	}
	if n[NotePrevEnd] == EndWriteError {
		v.find(FailedWrite, prev.origin, "", size, "a write after record %d failed; the log ended there and %s went on", size-1, next.origin)
	}
}

// gone compares a pruned log with what its successor saw of it.
func (v *verifier) gone(prev string, next *checked) {
	v.partial = true
	p, n := v.pruned[prev].Note, next.birth.Note
	if p[NoteSize] != n[NotePrevSize] || p[NoteRoot] != n[NotePrevRoot] {
		v.find(Edited, prev, "", -1, "the log.prune record names another end than %s saw", next.origin)
		return
	}
	v.find(Pruned, prev, "", -1, "%s records were removed, as %s/%d says", p[NoteSize], v.pruned[prev].Log, v.pruned[prev].Seq)
}

// tail says what stands behind the last signature.
func (v *verifier) tail(l, next *checked, newest bool) {
	if l.broken || l.birth == nil {
		return
	}
	switch {
	case l.last == TypeLogSeal:
	case newest:
		v.find(Unsealed, l.origin, "", l.tree.Size()-1, "the newest log is not closed: it is being written, or ended by a crash")
	case next != nil && next.birth.Note[NotePrevEnd] != EndWriteError:
		v.find(Unsealed, l.origin, "", l.tree.Size()-1, "the process ended without closing the log")
	}
	if n := l.tree.Size() - l.signed; n > 0 {
		who := "nothing vouches for them yet"
		if next != nil && l.vouched >= l.tree.Size() {
			who = "the birth of " + next.origin + " vouches for them"
		}
		v.find(Unsigned, l.origin, "", l.signed, "%d records are not under a checkpoint; %s", n, who)
	}
}

func encodeRoot(h tlog.Hash) string { return base64.StdEncoding.EncodeToString(h[:]) }
