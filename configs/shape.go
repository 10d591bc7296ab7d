package configs

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The shape check walks the YAML beside the schema before anything is decoded. It is stricter than protoyaml, which takes
// the last of two equal keys, three spellings of each key, numbers for enum values and nothing for a message.

func (d *document) message(n *yaml.Node, md protoreflect.MessageDescriptor, path string) {
	if _, ok := d.places[path]; !ok {
		d.places[path] = at(n)
	}
	if md.ParentFile().Package() == "google.protobuf" {
		d.places[path] = at(n)
		d.plain(n, path) // durations and the like: protoyaml reads them
		return
	}
	if !d.kind(n, yaml.MappingNode, path, "fields") {
		return
	}
	d.keys(n, path, func(key, value *yaml.Node) {
		fd := md.Fields().ByName(protoreflect.Name(key.Value))
		if fd == nil {
			d.unknown(key, md, path)
			return
		}
		p := join(path, fd.Name())
		d.places[p] = at(key)
		d.field(value, fd, p)
	})
}

func (d *document) field(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) {
	switch {
	case isNull(n):
		d.tell(path, at(n), "no value", "give one, or remove the key")
	case fd.IsList():
		if !d.kind(n, yaml.SequenceNode, path, `a list ("- …")`) {
			return
		}
		for i, item := range n.Content {
			p := fmt.Sprintf("%s[%d]", path, i)
			d.places[p] = at(item)
			if isNull(item) {
				d.tell(p, at(item), "no value", "give one, or remove the item")
				continue
			}
			d.single(item, fd, p)
		}
	case fd.IsMap():
		if !d.kind(n, yaml.MappingNode, path, "keys and values") {
			return
		}
		d.keys(n, path, func(key, value *yaml.Node) {
			p := fmt.Sprintf("%s[%q]", path, key.Value)
			d.places[p] = at(key)
			d.field(value, fd.MapValue(), p)
		})
	default:
		d.single(n, fd, path)
	}
}

func (d *document) single(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) {
	switch {
	case fd.Message() != nil:
		d.message(n, fd.Message(), path)
	case !d.kind(n, yaml.ScalarNode, path, "a single value"):
	case fd.Enum() != nil:
		d.places[path] = at(n)
		values := fd.Enum().Values()
		if v := values.ByName(protoreflect.Name(n.Value)); v != nil {
			return
		}
		var names []string
		for i := range values.Len() {
			if values.Get(i).Number() != 0 {
				names = append(names, string(values.Get(i).Name()))
			}
		}
		d.tell(path, at(n), fmt.Sprintf("%q is not one of its values", n.Value), mendName(n.Value, names))
	default:
		d.places[path] = at(n)
	}
}

// keys calls f for each key of a mapping and refuses repeated, odd and merged ones.
func (d *document) keys(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	seen := make(map[string]place, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			d.tell(path, at(key), "a key must be a plain word", "merge keys and complex keys are not supported: write the fields out")
			continue
		}
		p := join(path, protoreflect.Name(key.Value))
		if first, twice := seen[key.Value]; twice {
			d.tell(p, at(key), fmt.Sprintf("a second time in the same place (first in line %d)", first.line), "remove one of them")
			continue
		}
		seen[key.Value] = at(key)
		f(key, value)
	}
}

// plain refuses repeated keys where the schema says nothing of the fields.
func (d *document) plain(n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.MappingNode:
		d.keys(n, path, func(key, value *yaml.Node) { d.plain(value, join(path, protoreflect.Name(key.Value))) })
	case yaml.SequenceNode:
		for _, item := range n.Content {
			d.plain(item, path)
		}
	default:
		d.kind(n, yaml.ScalarNode, path, "a single value")
	}
}

func (d *document) kind(n *yaml.Node, want yaml.Kind, path, words string) bool {
	if n.Kind == want {
		return true
	}
	d.tell(path, at(n), "want "+words, d.hint(path))
	d.places[path] = at(n) // protoyaml will complain of the value, here
	return false
}

func (d *document) unknown(key *yaml.Node, md protoreflect.MessageDescriptor, path string) {
	var names []string
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	d.tell(join(path, protoreflect.Name(key.Value)), at(key), "unknown key", mendName(key.Value, names))
	if near := nearest(key.Value, names); near != "" {
		d.told[join(path, protoreflect.Name(near))] = true // what was meant need not be told as missing too
	}
}

func mendName(got string, names []string) string {
	if near := nearest(got, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	slices.Sort(names)
	return "want one of: " + strings.Join(names, ", ")
}

// nearest is the name that got was probably meant to be, or "".
func nearest(got string, names []string) string {
	best, limit := "", max(1, len(got)/3)
	g := plainName(got)
	for _, n := range names {
		if dist := distance(g, plainName(n)); dist <= limit && (best == "" || dist < distance(g, plainName(best))) {
			best = n
		}
	}
	return best
}

// plainName makes maxRequestBytes and max-request-bytes equal to max_request_bytes.
func plainName(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance is the number of single letters to insert, delete or replace, or neighbours to swap, between a and b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
