package configs

import (
	"embed"
	"fmt"
	"io/fs"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/stoplog/stoplog/configs/configv1"
)

//go:embed default.yaml
var defaultYAML []byte

//go:embed reference.yaml
var referenceYAML []byte

//go:embed bootstrap.yaml
var bootstrapReferenceYAML []byte

//go:embed connectors/*.yaml
var connectorFiles embed.FS

// shippedBundle is default.yaml. That it decodes is a test's business; a binary that fails here was never tested.
var shippedBundle = sync.OnceValue(func() *configv1.Bundle {
	b := &configv1.Bundle{}
	mustDecode("default.yaml", defaultYAML, b)
	return b
})

// shippedFiles are the texts of the files in connectors/, by profile; filled by shippedProfiles.
var shippedFiles = map[string]string{}

// shippedProfiles are the profiles in connectors/, by name.
var shippedProfiles = sync.OnceValue(func() map[string]*configv1.ConnectorProfile {
	profiles := map[string]*configv1.ConnectorProfile{}
	names, _ := fs.Glob(connectorFiles, "connectors/*.yaml") // the pattern is well-formed
	for _, name := range names {
		data, _ := connectorFiles.ReadFile(name) // listed a moment ago in an embedded folder
		b := &configv1.Bundle{}
		mustDecode(name, data, b)
		for _, p := range b.GetConnectorProfiles() {
			if profiles[p.GetName()] != nil {
				panic("configs: two shipped profiles " + p.GetName())
			}
			profiles[p.GetName()], shippedFiles[p.GetName()] = p, string(data)
		}
	}
	return profiles
})

func mustDecode(name string, data []byte, b *configv1.Bundle) {
	err := decode(name, data, b).errs.orNil()
	if err != nil {
		panic(fmt.Sprintf("configs: shipped with mistakes:\n%v", err))
	}
}

// Default is what holds when no configuration is given: the common vendors with cautious limits.
func Default() *Snapshot {
	s, err := New(shippedBundle())
	if err != nil {
		panic(fmt.Sprintf("configs: shipped with mistakes:\n%v", err))
	}
	return s
}

// DefaultWithPlayground is Default with the destination "playground" at url, an address of this machine
// ("http://127.0.0.1:41234"). It makes a first call possible without a key or a network.
func DefaultWithPlayground(url string) (*Snapshot, error) {
	b := proto.CloneOf(shippedBundle())
	d := &configv1.Bundle{}
	doc := decode("playground.yaml", playgroundYAML, d)
	if len(doc.errs) > 0 {
		return nil, doc.errs
	}
	d.Destinations[0].Url = url
	proto.Merge(b, d)
	return New(b)
}

//go:embed playground.yaml
var playgroundYAML []byte

// DefaultYAML is the text of the default configuration, to start one's own from.
func DefaultYAML() string { return string(defaultYAML) }

// ReferenceYAML is a configuration that names and explains every field.
func ReferenceYAML() string { return string(referenceYAML) }

// ShippedProfile is the text of the file with the shipped profile of this name, comments included, to start one's own from.
func ShippedProfile(name string) (string, bool) {
	if shippedProfiles()[name] == nil {
		return "", false
	}
	return shippedFiles[name], true
}
