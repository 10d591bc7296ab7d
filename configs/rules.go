package configs

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stoplog/stoplog/configs/bootstrapv1"
	"github.com/stoplog/stoplog/configs/configv1"
)

// The rules of the schema are compiled once; it takes tens of milliseconds.
var validator = sync.OnceValues(func() (protovalidate.Validator, error) {
	return protovalidate.New(protovalidate.WithMessages(&configv1.Bundle{}, &bootstrapv1.Bootstrap{}))
})

// rules checks what the schema's rules say.
func (d *document) rules() {
	v, err := validator()
	if err == nil {
		err = v.Validate(d.msg)
	}
	var broken *protovalidate.ValidationError
	switch {
	case err == nil:
	case errors.As(err, &broken):
		for _, x := range broken.Violations {
			d.violation(x.Proto)
		}
	default:
		d.tell("", place{}, "the schema's rules could not be checked: "+err.Error(), "")
	}
}

func (d *document) violation(v *validate.Violation) {
	path := protovalidate.FieldPathString(v.GetField())
	switch {
	case d.moot[path] || d.mootAround(path):
	case v.GetRuleId() == "required" || path != "" && !d.has(path) && !strings.Contains(v.GetRuleId(), "cel"):
		d.tellAt(path, "missing", d.mendMissing(path))
	default:
		problem := v.GetMessage()
		if problem == "" {
			problem = "breaks the rule " + v.GetRuleId()
		}
		// Not tell: one message may break several rules.
		d.told[path] = true
		d.add(path, d.place(path), d.plainWords(path, problem), d.hint(path))
	}
}

var numbers = regexp.MustCompile(`\b[0-9]+\b`)

// plainWords puts a rule's message into the words of the file.
func (d *document) plainWords(path, problem string) string {
	problem = strings.TrimPrefix(problem, "value ")
	problem = strings.Replace(problem, "does not match regex pattern", "has the wrong form, want", 1)
	md, name := d.fieldAt(path)
	if md == nil {
		return problem
	}
	fd := md.Fields().ByName(protoreflect.Name(name))
	if fd == nil || fd.Enum() == nil {
		return problem
	}
	// The rules name values of enums by number.
	return numbers.ReplaceAllStringFunc(problem, func(n string) string {
		i, _ := strconv.Atoi(n) // digits only
		if v := fd.Enum().Values().ByNumber(protoreflect.EnumNumber(i)); v != nil {
			return string(v.Name())
		}
		return n
	})
}

// mootAround reports whether a field around path could not be read.
func (d *document) mootAround(path string) bool {
	for i := strings.LastIndexAny(path, ".["); i > 0; i = strings.LastIndexAny(path[:i], ".[") {
		if d.moot[path[:i]] {
			return true
		}
	}
	return false
}

func (d *document) mendMissing(path string) string {
	md, name := d.fieldAt(path)
	if md == nil {
		return ""
	}
	if one := md.Oneofs().ByName(protoreflect.Name(name)); one != nil {
		var names []string
		for i := range one.Fields().Len() {
			names = append(names, string(one.Fields().Get(i).Name()))
		}
		return "add one of: " + strings.Join(names, ", ")
	}
	if ex := example(md, name); ex != "" {
		return fmt.Sprintf("add e.g. %q", name+": "+ex)
	}
	return fmt.Sprintf("add a %q section; reference.yaml shows one", name+":")
}

// hint is a valid value of the field, as a mend.
func (d *document) hint(path string) string {
	md, name := d.fieldAt(path)
	if md == nil {
		return ""
	}
	if ex := example(md, name); ex != "" {
		return fmt.Sprintf("for example %q", name+": "+ex)
	}
	return ""
}

var indexes = regexp.MustCompile(`\[[^\]]*\]`)

// fieldAt is the message and the name of the field or oneof at path.
func (d *document) fieldAt(path string) (protoreflect.MessageDescriptor, string) {
	md := d.msg.ProtoReflect().Descriptor()
	parts := strings.Split(indexes.ReplaceAllString(path, ""), ".")
	for i, p := range parts {
		if i == len(parts)-1 {
			return md, p
		}
		fd := md.Fields().ByName(protoreflect.Name(p))
		if fd == nil || fd.Message() == nil {
			return nil, ""
		}
		md = fd.Message()
	}
	return nil, ""
}

// examples are the values in reference.yaml, by message and field.
var examples = sync.OnceValue(func() map[protoreflect.FullName]string {
	found := map[protoreflect.FullName]string{}
	for _, ref := range []struct {
		data []byte
		msg  proto.Message
	}{{referenceYAML, &configv1.Bundle{}}, {bootstrapReferenceYAML, &bootstrapv1.Bootstrap{}}} {
		var doc yaml.Node
		err := yaml.Unmarshal(ref.data, &doc)
		if err != nil || len(doc.Content) == 0 {
			continue // a test holds the reference to its form
		}
		collect(doc.Content[0], ref.msg.ProtoReflect().Descriptor(), found)
	}
	return found
})

func example(md protoreflect.MessageDescriptor, field string) string {
	return examples()[md.FullName().Append(protoreflect.Name(field))]
}

func collect(n *yaml.Node, md protoreflect.MessageDescriptor, found map[protoreflect.FullName]string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		fd, value := md.Fields().ByName(protoreflect.Name(n.Content[i].Value)), n.Content[i+1]
		if fd == nil {
			continue
		}
		name := md.FullName().Append(fd.Name())
		if _, ok := found[name]; !ok && value.Kind == yaml.ScalarNode {
			found[name] = value.Value
		}
		if value.Kind == yaml.MappingNode && fd.Message() != nil && !fd.IsMap() {
			collect(value, fd.Message(), found)
		}
		if value.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range value.Content {
			if item.Kind == yaml.MappingNode && fd.Message() != nil {
				collect(item, fd.Message(), found)
			} else if _, ok := found[name]; !ok && item.Kind == yaml.ScalarNode {
				found[name] = "[" + item.Value + "]"
			}
		}
	}
}
