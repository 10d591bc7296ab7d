package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The first lines name protoc's version; nothing else depends on it.
var protocVersion = regexp.MustCompile(`(?m)^// \tprotoc +v.*$`)

func TestCommittedCodeIsGenerated(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	err = generate(filepath.Join(root, "configs/proto"), out)
	if errors.Is(err, errNoProtoc) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh, committed := goFiles(t, out), goFiles(t, root)
	for name, b := range fresh {
		if !bytes.Equal(b, committed[name]) {
			t.Errorf("%s is not what the schema generates; run: go run ./configs/gen", name)
		}
	}
	for name := range committed {
		if fresh[name] == nil {
			t.Errorf("%s is generated from no .proto; delete it", name)
		}
	}
}

// goFiles reads the generated files below root's configs, by path, without protoc's version.
func goFiles(t *testing.T, root string) map[string][]byte {
	files := map[string][]byte{}
	base := filepath.Join(root, "configs")
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if ok, _ := filepath.Match("*.pb.go", d.Name()); !ok {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[rel] = protocVersion.ReplaceAll(b, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
