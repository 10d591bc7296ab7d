package configs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/stoplog/stoplog/configs/configv1"
)

// Load reads files, and folders as LoadDir does, and joins them into one snapshot: a name may stand in one file only.
// Problems of all files come together, as Errors.
//
// What the files say of destinations, policies, budgets and levels is all there is. Shipped connector profiles stay
// available by name unless the files define one of the same name; shipped prices hold unless the files have a price table.
func Load(paths ...string) (*Snapshot, error) {
	files, err := readAll(paths)
	if err != nil {
		return nil, err
	}
	return load(files)
}

// LoadDir reads all *.yaml, *.yml and *.json files of a folder, not of its sub-folders, and none that begins with a dot.
func LoadDir(dir string) (*Snapshot, error) { return Load(dir) }

// Parse reads one file's text. name is used in errors.
func Parse(name string, data []byte) (*Snapshot, error) {
	return load([]file{{name, data}})
}

// New makes a snapshot of messages that came from elsewhere, under the same rules as files.
func New(b *configv1.Bundle) (*Snapshot, error) {
	d := &document{msg: b, places: map[string]place{}, told: map[string]bool{}}
	d.rules()
	return build([]*document{d})
}

type file struct {
	name string
	data []byte
}

func load(files []file) (*Snapshot, error) {
	var docs []*document
	found := false
	for _, f := range files {
		b := &configv1.Bundle{}
		docs = append(docs, decode(f.name, f.data, b))
		found = found || len(b.GetDestinations()) > 0 || len(docs[len(docs)-1].errs) > 0
	}
	if !found {
		docs[0].tell("", place{}, "no destinations: every request would be refused", "add a destination; reference.yaml shows one")
	}
	return build(docs)
}

// build checks the documents together and compiles them.
func build(docs []*document) (*Snapshot, error) {
	c := newChecker(docs)
	c.check()
	var errs Errors
	for _, d := range docs {
		errs = append(errs, d.errs...)
	}
	err := errs.orNil()
	if err != nil {
		return nil, err
	}
	return (&compiler{profiles: c.profiles}).compile(c.effective()), nil
}

// effective is what the documents say together, with the shipped profiles that they use and prices.
func (c *checker) effective() *configv1.Bundle {
	all := &configv1.Bundle{}
	for _, d := range c.docs {
		proto.Merge(all, d.msg)
	}
	for name := range c.used {
		if p := shippedProfiles()[name]; p != nil {
			all.ConnectorProfiles = append(all.ConnectorProfiles, proto.CloneOf(p))
		}
	}
	if len(all.GetPriceTables()) == 0 {
		for _, t := range shippedBundle().GetPriceTables() {
			all.PriceTables = append(all.PriceTables, proto.CloneOf(t))
		}
	}
	return all
}

func readAll(paths []string) ([]file, error) {
	if len(paths) == 0 {
		return nil, Errors{{Problem: "no file or folder is named"}}
	}
	var files []file
	var errs Errors
	for _, p := range paths {
		names, err := list(p)
		if err != nil {
			errs = append(errs, &Error{File: p, Problem: reading(err)})
			continue
		}
		for _, n := range names {
			data, err := readFile(n)
			if err != nil {
				errs = append(errs, &Error{File: n, Problem: reading(err)})
			}
			files = append(files, file{n, data})
		}
	}
	return files, errs.orNil()
}

// list is the path itself, or the configuration files of the folder.
func list(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		name := filepath.Join(path, e.Name())
		info, err := os.Stat(name) // entries of a mounted ConfigMap are links
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no *.yaml, *.yml or *.json file in this folder")
	}
	return names, nil
}

// readFile reads one byte more than is allowed, so that decode can tell.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// reading drops the path from an error of the file system: Error.File names it.
func reading(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Sprintf("cannot be read: %v", p.Err)
	}
	return err.Error()
}
