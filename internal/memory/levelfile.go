package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission/killswitch"
)

// levelHeader begins a level file; the digest of the rest follows. A torn, edited or foreign file is unreadable, and an
// unreadable file is L2, never L0.
const levelHeader = "stoplog-levels v1 sha256:"

// loadLevels reads the level file. No file is a first start.
func (s *Store) loadLevels() {
	var table *killswitch.Table
	s.levels.Store(table)
	if s.options.LevelFile == "" {
		return
	}
	entries, err := readLevels(s.options.LevelFile)
	if err == nil {
		s.levels.Store(table.With(entries...))
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.warning = fmt.Errorf("level file unreadable, the fleet is at L2 until a person decides: %w", err)
	at := s.options.Now().Round(0).UTC()
	var record killswitch.Record
	record.Raises[stoplog.L2] = killswitch.Raise{
		Level: stoplog.L2, Epoch: nextEpoch(table, at), Actor: automation + "level-file", Reason: "level file unreadable", At: at,
	}
	table = table.With(killswitch.Entry{Scope: stoplog.ScopeFleet, Record: record})
	s.levels.Store(table)
	// The file is left as it is until somebody changes a level: it is evidence, and the next start is at L2 again.
}

func readLevels(name string) ([]killswitch.Entry, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	head, body, ok := bytes.Cut(b, []byte("\n"))
	sum := sha256.Sum256(body)
	if !ok || string(head) != levelHeader+hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%s: damaged, edited or not a level file", name)
	}
	var entries []killswitch.Entry
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(&entries)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range entries {
		_, err := stoplog.ParseScope(string(e.Scope))
		if err == nil {
			err = e.Record.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return entries, nil
}

// saveLevels writes the whole table beside the file and renames it into place. Called with operating held.
func (s *Store) saveLevels(t *killswitch.Table) error {
	if s.options.LevelFile == "" {
		return nil
	}
	err := writeLevels(s.options.LevelFile, t.Entries())
	if err != nil {
		s.warning = fmt.Errorf("level file: a restart would forget the last change: %w", err)
		return s.warning
	}
	s.warning = nil
	return nil
}

func writeLevels(name string, entries []killswitch.Entry) error {
	body, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	body = append(body, '\n')
	sum := sha256.Sum256(body)
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, ".levels-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already if renamed
	_, err = f.Write(append([]byte(levelHeader+hex.EncodeToString(sum[:])+"\n"), body...))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	err = os.Rename(f.Name(), name)
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
