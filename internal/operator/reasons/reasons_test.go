package reasons

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
)

var update = flag.Bool("update", false, "write docs/reasons.md")

// Every constant of type Reason in the root package has exactly one entry, and no entry is without a constant.
func TestEveryReasonHasWords(t *testing.T) {
	declared := map[stoplog.Reason]bool{}
	file, err := parser.ParseFile(token.NewFileSet(), "../../../reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "Reason" {
			return true
		}
		for _, x := range v.Values {
			s, err := strconv.Unquote(x.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared[stoplog.Reason(s)] = true
		}
		return true
	})
	if len(declared) < 50 {
		t.Fatalf("read only %d reasons from reason.go", len(declared))
	}
	seen := map[stoplog.Reason]bool{}
	for _, g := range All() {
		for _, e := range g.Entries {
			if seen[e.Reason] {
				t.Errorf("%s is in the table twice", e.Reason)
			}
			seen[e.Reason] = true
			if !declared[e.Reason] {
				t.Errorf("%s is in the table but not in reason.go", e.Reason)
			}
			if e.Title == "" || e.What == "" || e.Do == "" || e.Disposition.Meaning() == "" {
				t.Errorf("%s: incomplete entry", e.Reason)
			}
			if strings.HasSuffix(e.Title, ".") || !strings.HasSuffix(e.What, ".") || !strings.HasSuffix(e.Do, ".") {
				t.Errorf("%s: a title has no full stop, the sentences do", e.Reason)
			}
		}
	}
	for r := range declared {
		if !seen[r] {
			t.Errorf("%s has no words in the table", r)
		}
	}
}

func TestLookup(t *testing.T) {
	e, ok := Lookup(stoplog.ReasonBreakerOpen)
	if !ok || e.Disposition != Later {
		t.Errorf("breaker_open: %v %v", e, ok)
	}
	if e, ok := Lookup("no_such"); ok || e.Reason != "no_such" || e.Title == "" {
		t.Errorf("no_such: %v %v", e, ok)
	}
	if text := e.Text(); !strings.Contains(text, "`breaker_open`") || !strings.Contains(text, e.Do) {
		t.Errorf("page lacks parts:\n%s", text)
	}
}

func TestDocument(t *testing.T) {
	const file = "../../../docs/reasons.md"
	want := Document()
	if *update {
		err := os.WriteFile(file, []byte(want), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reasons.md is not what the table says: run go generate ./internal/operator/reasons")
	}
}
