package configs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stoplog/stoplog/configs/bootstrapv1"
	"github.com/stoplog/stoplog/configs/configv1"
)

// Every field of every message stands in the reference, with a comment at least once.
func TestReferenceNamesEveryField(t *testing.T) {
	for _, ref := range []struct {
		name string
		data []byte
		msg  proto.Message
	}{
		{"reference.yaml", referenceYAML, &configv1.Bundle{}},
		{"bootstrap.yaml", bootstrapReferenceYAML, &bootstrapv1.Bootstrap{}},
	} {
		t.Run(ref.name, func(t *testing.T) {
			var doc yaml.Node
			err := yaml.Unmarshal(ref.data, &doc)
			if err != nil {
				t.Fatal(err)
			}
			named, explained := map[protoreflect.FullName]bool{}, map[protoreflect.FullName]bool{}
			fieldsIn(doc.Content[0], ref.msg.ProtoReflect().Descriptor(), named, explained)
			for _, f := range fieldsOf(ref.msg.ProtoReflect().Descriptor(), map[protoreflect.FullName]bool{}) {
				switch {
				case !named[f]:
					t.Errorf("%s is not named", f)
				case !explained[f]:
					t.Errorf("%s has no comment", f)
				}
			}
		})
	}
}

// fieldsIn notes which fields of the message stand below n, and which of them have a comment.
func fieldsIn(n *yaml.Node, md protoreflect.MessageDescriptor, named, explained map[protoreflect.FullName]bool) {
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			fieldsIn(item, md, named, explained)
		}
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		fd := md.Fields().ByName(protoreflect.Name(key.Value))
		if fd == nil {
			continue // loading it tells
		}
		named[fd.FullName()] = true
		if key.HeadComment+key.LineComment+value.LineComment+value.HeadComment != "" || i == 0 && n.HeadComment != "" {
			explained[fd.FullName()] = true
		}
		if fd.Message() != nil {
			fieldsIn(value, fd.Message(), named, explained)
		}
	}
}

// fieldsOf lists the fields of a message of ours and of all messages that it reaches.
func fieldsOf(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) []protoreflect.FullName {
	if seen[md.FullName()] || md.ParentFile().Package() == "google.protobuf" {
		return nil
	}
	seen[md.FullName()] = true
	var names []protoreflect.FullName
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		names = append(names, fd.FullName())
		if fd.Message() != nil {
			names = append(names, fieldsOf(fd.Message(), seen)...)
		}
	}
	return names
}

func TestReferenceLoads(t *testing.T) {
	s, err := Load("reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadBootstrap("bootstrap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.Destination("crm") == nil || len(b.Listeners) != 2 {
		t.Error("something is missing")
	}
}

func TestExamplesLoad(t *testing.T) {
	paths, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(paths) < 5 {
		t.Fatalf("examples %v: %v", paths, err)
	}
	for _, p := range paths {
		s, err := Load(p)
		if err != nil {
			t.Errorf("%s:\n%v", p, err)
			continue
		}
		local := filepath.Join("examples/bootstrap", filepath.Base(p))
		_, err = os.Stat(local)
		if err != nil {
			continue
		}
		b, err := LoadBootstrap(local)
		if err == nil {
			err = b.Check(s)
		}
		if err != nil {
			t.Errorf("%s:\n%v", local, err)
		}
	}
}

// Every resource has a name and may have a meta, so that all are handled alike.
func TestEveryResourceIsNamed(t *testing.T) {
	lists := (&configv1.Bundle{}).ProtoReflect().Descriptor().Fields()
	if lists.Len() > 8 {
		t.Errorf("%d types of resource, want at most 8", lists.Len())
	}
	for i := range lists.Len() {
		md := lists.Get(i).Message()
		var names []string
		for j := range md.Fields().Len() {
			names = append(names, string(md.Fields().Get(j).Name()))
		}
		if len(names) < 2 || !slices.Equal(names[:2], []string{"name", "meta"}) {
			t.Errorf("%s begins with %v", md.Name(), names)
		}
	}
}
