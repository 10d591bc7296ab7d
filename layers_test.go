package stoplog_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stoplog/stoplog"

// rooms says what each room may import of ours ("" is the root package). A room covers its sub-folders; the longest prefix
// holds. It is read with the picture in docs/architecture.md.
var rooms = map[string][]string{
	"":                    {},
	"admission":           {"", "admission"},
	"budget":              {"", "admission"},
	"filters":             {"", "admission"},
	"receipts":            {"", "receipts"},
	"signals":             {"", "signals"},
	"proxy":               {"", "admission", "receipts", "proxy"},
	"proxy/connector":     {""},                                                      // decoders and profiles know no stage, no store and no log
	"configs":             {"", "admission", "budget", "proxy/connector", "configs"}, // Config types only
	"internal/fakevendor": {},
	"internal/memory":     {"", "admission", "internal/memory"},
	"internal/operator":   {"", "admission", "receipts", "configs", "internal/operator"},
	"internal/demo":       {"", "admission", "receipts", "internal"},
	"internal/app":        {"", "admission", "budget", "filters", "receipts", "signals", "proxy", "configs", "internal"},
	"cmd/stoplog":         {"", "admission", "receipts", "configs", "internal"},
	"e2e":                 {"internal/fakevendor"},
	"bench":               {"", "internal", "proxy", "receipts"},
}

// handlesNoHTTP are rooms in which a stage lives: no stage can see HTTP.
var handlesNoHTTP = []string{"", "admission", "budget", "filters", "receipts", "signals"}

func TestLayers(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." {
			dir = ""
		}
		room, ok := roomOf(dir)
		if !ok {
			t.Errorf("%s: the folder is in no room; add it to the table and to docs/architecture.md", path)
			return nil
		}
		seen[room] = true
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if imported == "net/http" && inRoom(room, handlesNoHTTP) {
				t.Errorf("%s imports net/http: no stage, word or receipt knows HTTP", path)
			}
			ours, isOurs := strings.CutPrefix(imported, module)
			if !isOurs {
				continue
			}
			ours = strings.TrimPrefix(ours, "/")
			if ours == "internal/app" && !strings.HasPrefix(dir, "cmd/") && room != "internal/demo" && room != "bench" && room != "internal/app" {
				t.Errorf("%s imports the wiring", path)
			}
			if ours != dir && !inRoom(ours, rooms[room]) {
				t.Errorf("%s (room %q) may not import %q", path, room, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{"", "admission", "receipts", "proxy", "configs", "internal/app"} {
		if !seen[r] {
			t.Errorf("room %q is empty: the test looks at the wrong place", r)
		}
	}
}

func roomOf(dir string) (string, bool) {
	best, found := "", false
	for r := range rooms {
		if (r == dir || r != "" && strings.HasPrefix(dir, r+"/") || r == "" && dir == "") && (!found || len(r) > len(best)) {
			best, found = r, true
		}
	}
	return best, found
}

func inRoom(pkg string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		return a == pkg || a != "" && strings.HasPrefix(pkg, a+"/")
	})
}
