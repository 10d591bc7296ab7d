package configs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is got as what is wanted; commit only a difference that you can explain")

const dashes = "----------------------------------------"

// Each file in testdata is a configuration, a dashed line, and what it means: the snapshot, or every error.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no testdata: ", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(data), dashes+"\n")
			got := normalForm("in.yaml", input)
			if *update {
				err := os.WriteFile(path, []byte(input+dashes+"\n"+got), 0o600)
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// normalForm is the snapshot in text, or the errors. Shipped prices and profiles are left out.
func normalForm(name, input string) string {
	s, err := Parse(name, []byte(input))
	if err != nil {
		var all Errors
		if !errors.As(err, &all) {
			return "not Errors: " + err.Error() + "\n"
		}
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, d := range s.Destinations() {
		fmt.Fprintf(&b, "destination %s\n", d.Name)
		v := reflect.ValueOf(*d)
		for i := range v.NumField() {
			f, value := v.Type().Field(i), v.Field(i)
			if f.Name == "Name" || f.Name == "Profile" || value.IsZero() {
				continue
			}
			if text, ok := value.Interface().(fmt.Stringer); ok {
				fmt.Fprintf(&b, "  %s: %s\n", f.Name, text)
				continue
			}
			fmt.Fprintf(&b, "  %s: %+v\n", f.Name, reflect.Indirect(value).Interface())
		}
	}
	for _, x := range s.Denials() {
		fmt.Fprintf(&b, "deny %+v\n", x)
	}
	for _, x := range s.Exemptions() {
		fmt.Fprintf(&b, "exempt %+v\n", x)
	}
	for _, x := range s.Spend().Budgets {
		x.Selects = nil // a function
		fmt.Fprintf(&b, "budget %+v\n", x)
	}
	if len(s.bundle.GetPriceTables()) > 0 && s.bundle.GetPriceTables()[0].GetName() != "list-prices" {
		for _, x := range s.Spend().Prices.Prices {
			fmt.Fprintf(&b, "price %+v\n", x)
		}
		fmt.Fprintf(&b, "price of others %+v, output %d\n", s.Spend().Prices.Ceiling, s.Spend().MaxOutput)
	}
	for _, x := range s.Levels() {
		fmt.Fprintf(&b, "level %s %s: %+v\n", x.Scope, x.Record.Level(), x.Record)
	}
	return b.String()
}
