package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxFileBytes bounds what is read of one file.
const maxFileBytes = 16 << 20

// document is one decoded file: the message, and where in the file each of its fields stands.
type document struct {
	file   string
	msg    proto.Message
	places map[string]place // by field path; list elements as "destinations[0]"
	errs   Errors
	told   map[string]bool // paths whose problem is in errs already
	moot   map[string]bool // paths that could not be read: what follows from that, around or below, is not told
}

type place struct{ line, column int }

// decode reads one YAML document into msg and checks its shape and rules. Problems are in the document's errs.
func decode(file string, data []byte, msg proto.Message) *document {
	d := &document{file: file, msg: msg, places: map[string]place{}, told: map[string]bool{}}
	root := d.parse(data)
	if root == nil {
		return d
	}
	text, moved := d.expand(root, data)
	if len(d.errs) > 0 {
		return d
	}
	d.message(root, msg.ProtoReflect().Descriptor(), "")
	d.fill(text, moved)
	d.moot = maps.Clone(d.told)
	d.rules()
	return d
}

// parse reads the one YAML document of the file; nil means that the problem has been told.
func (d *document) parse(data []byte) *yaml.Node {
	switch {
	case len(data) > maxFileBytes:
		d.tell("", place{}, fmt.Sprintf("larger than %d MiB", maxFileBytes>>20), "split it into several files")
		return nil
	case hasOddBreak(data):
		// Readers disagree on whether these end a line, so no position after one could be trusted.
		d.tell("", place{}, "holds a line break other than LF or CRLF, or a byte that is not UTF-8", "convert its line ends")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]) {
		// A file that is being written is empty for a moment. It must not count as "nothing is configured".
		d.tell("", place{}, "empty", "delete the file, or put something in it")
		return nil
	}
	if err == nil {
		err = dec.Decode(&next)
		if err == nil {
			d.tell("", at(&next), "a second YAML document", `remove the "---" before it`)
			return nil
		}
		if errors.Is(err, io.EOF) {
			return doc.Content[0]
		}
	}
	p, text := yamlProblem(err)
	d.tell("", p, text, "")
	return nil
}

func hasOddBreak(data []byte) bool {
	rest := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return !bytes.Equal(data, bytes.ToValidUTF8(data, nil)) || bytes.ContainsAny(rest, "\r\u0085\u2028\u2029")
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlProblem takes the line out of a yaml error.
func yamlProblem(err error) (place, string) {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return place{}, "not YAML: " + text
	}
	p := place{}
	if m[1] != "" {
		p.line, _ = strconv.Atoi(m[1]) // digits only
		p.column = 1
	}
	return p, "not YAML: " + text[len(m[0]):]
}

// fill lets protoyaml set the fields. What it refuses is told at the field that stands there; moved says where a place in
// the text is in the file, nil if they are the same.
func (d *document) fill(data []byte, moved map[place]place) {
	err := protoyaml.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, d.msg)
	if err == nil {
		return
	}
	byPlace := make(map[place]string, len(d.places))
	for path, p := range d.places {
		best := byPlace[p]
		// The innermost field; of those that one alias made, the first.
		if len(path) > len(best) || len(path) == len(best) && path < best {
			byPlace[p] = path
		}
	}
	for _, e := range unjoin(err) {
		p, text := protoyamlProblem(e)
		if moved != nil {
			p = moved[p]
		}
		d.tell(byPlace[p], p, text, d.hint(byPlace[p]))
	}
}

// protoyamlProblem takes place and cause out of an error of protoyaml, whose text is ":line:column cause" and a snippet.
func protoyamlProblem(err error) (place, string) {
	var p place
	cause := errors.Unwrap(err)
	_, scanErr := fmt.Sscanf(err.Error(), ":%d:%d ", &p.line, &p.column)
	if cause == nil || scanErr != nil {
		return place{}, err.Error()
	}
	return p, cause.Error()
}

func unjoin(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// tell notes a problem, one per path.
func (d *document) tell(path string, p place, problem, mend string) {
	if d.told[path] {
		return
	}
	d.told[path] = true
	d.add(path, p, problem, mend)
}

func (d *document) add(path string, p place, problem, mend string) {
	d.errs = append(d.errs, &Error{File: d.file, Line: p.line, Column: p.column, Field: path, Problem: problem, Mend: mend})
}

// tellAt notes a problem at the place of path, or of the nearest field around it that stands in the file.
func (d *document) tellAt(path, problem, mend string) {
	d.tell(path, d.place(path), problem, mend)
}

func (d *document) place(path string) place {
	for {
		if p, ok := d.places[path]; ok {
			return p
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return d.places[""]
		}
		path = path[:i]
	}
}

// has reports whether the field stands in the file.
func (d *document) has(path string) bool {
	_, ok := d.places[path]
	return ok
}

func at(n *yaml.Node) place { return place{n.Line, n.Column} }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func join(path string, name protoreflect.Name) string {
	if path == "" {
		return string(name)
	}
	return path + "." + string(name)
}
