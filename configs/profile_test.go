package configs

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs/configv1"
	"github.com/stoplog/stoplog/proxy/connector"
)

// filled sets every field of a message: enums to value, lists to one element, one member of each oneof.
func filled(m protoreflect.Message, value protoreflect.EnumNumber) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if oneof := fd.ContainingOneof(); oneof != nil && oneof.Fields().Get(0) != fd {
			continue
		}
		var v protoreflect.Value
		switch fd.Kind() {
		case protoreflect.MessageKind:
			inner := m.NewField(fd)
			if fd.IsList() {
				e := inner.List().NewElement()
				filled(e.Message(), value)
				inner.List().Append(e)
			} else {
				filled(inner.Message(), value)
			}
			m.Set(fd, inner)
			continue
		case protoreflect.EnumKind:
			v = protoreflect.ValueOfEnum(value)
		case protoreflect.StringKind:
			v = protoreflect.ValueOfString("x")
		case protoreflect.BoolKind:
			v = protoreflect.ValueOfBool(true)
		case protoreflect.Int32Kind:
			v = protoreflect.ValueOfInt32(1)
		case protoreflect.Int64Kind:
			v = protoreflect.ValueOfInt64(1)
		default:
			v = protoreflect.ValueOfUint64(1)
		}
		if fd.IsList() {
			list := m.NewField(fd)
			list.List().Append(v)
			v = list
		}
		m.Set(fd, v)
	}
}

// TestProfileSpec: no field of the schema is left behind, whichever comes to it later.
func TestProfileSpec(t *testing.T) {
	p := &configv1.ConnectorProfile{}
	filled(p.ProtoReflect(), 2) // 2 is a value of every enum, and no zero on the other side
	checkFilled(t, "", reflect.ValueOf(profileSpec(p)))
}

func checkFilled(t *testing.T, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			t.Errorf("%s is not set", path)
			return
		}
		checkFilled(t, path, v.Elem())
	case reflect.Slice:
		if v.Len() == 0 {
			t.Errorf("%s is empty", path)
			return
		}
		checkFilled(t, path+"[0]", v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Type() == reflect.TypeFor[connector.Source]() && slicesContains("Form Field Query Header Path Text", name) {
				continue // members of the oneof that JSON stands for
			}
			checkFilled(t, path+"."+name, v.Field(i))
		}
	default:
		if v.IsZero() {
			t.Errorf("%s is not set", path)
		}
	}
}

func slicesContains(words, word string) bool {
	return strings.Contains(" "+words+" ", " "+word+" ")
}

// TestEnums: what is converted by number counts alike on both sides, and what is converted by name is whole.
func TestEnums(t *testing.T) {
	for n, name := range configv1.Class_name {
		if n > 0 && !strings.EqualFold(stoplog.Class(n).String(), name) {
			t.Errorf("class %s is %s", name, stoplog.Class(n))
		}
	}
	for body, want := range map[configv1.ConnectorProfile_Body]connector.Body{
		configv1.ConnectorProfile_JSON: connector.BodyJSON, configv1.ConnectorProfile_FORM: connector.BodyForm,
		configv1.ConnectorProfile_MULTIPART: connector.BodyMultipart, configv1.ConnectorProfile_JSON_RPC: connector.BodyJSONRPC,
		configv1.ConnectorProfile_OPAQUE: connector.BodyOpaque,
	} {
		if connector.Body(body) != want {
			t.Errorf("body %s is %s", body, want)
		}
	}
	for retry, want := range map[configv1.ConnectorProfile_Retry]connector.Retry{
		configv1.ConnectorProfile_NEVER: connector.RetryNever, configv1.ConnectorProfile_KEYED: connector.RetryKeyed,
		configv1.ConnectorProfile_SAFE: connector.RetrySafe,
	} {
		if connector.Retry(retry) != want {
			t.Errorf("retry %s", retry)
		}
	}
	for n := range configv1.ConnectorProfile_Shape_name {
		shape := configv1.ConnectorProfile_Shape(n)
		if _, ok := shapes[shape]; !ok && shape > configv1.ConnectorProfile_PROBLEM {
			t.Errorf("shape %s is not converted", shape)
		}
	}
	for n := range configv1.ConnectorProfile_Model_Usage_name {
		usage := configv1.ConnectorProfile_Model_Usage(n)
		if _, ok := usages[usage]; !ok && usage > configv1.ConnectorProfile_Model_NONE {
			t.Errorf("usage %s is not converted", usage)
		}
	}
	if len(outcomes) != len(configv1.ConnectorProfile_AnswerRule_Outcome_name)-1 ||
		len(healths) != len(configv1.ConnectorProfile_AnswerRule_Health_name)-1 {
		t.Error("an outcome or a health is not converted")
	}
}
