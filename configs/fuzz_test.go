package configs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Parse never panics; what it takes is checked and hashed, and its dump means the same; what it refuses, it refuses with
// a problem.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.txt", "examples/*.yaml", "*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz", data)
		if err != nil {
			var all Errors
			if !errors.As(err, &all) || len(all) == 0 || s != nil {
				t.Fatalf("refused without Errors: %v", err)
			}
			return
		}
		text, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again", text)
		if err != nil {
			t.Fatalf("its own dump is refused: %v\n%s", err, text)
		}
		if again.Version() != s.Version() {
			t.Fatalf("its own dump means something else:\n%s", text)
		}
	})
}

func FuzzParseBootstrap(f *testing.F) {
	f.Add(bootstrapReferenceYAML)
	f.Add([]byte("listeners: [{address: '[::1]:0'}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ParseBootstrap("fuzz", data)
		if (b == nil) == (err == nil) {
			t.Fatalf("%v, %v", b, err)
		}
	})
}
