// Command gen writes the Go code of the configuration's protobuf schema, without the network:
//
//	go run ./configs/gen
//
// It needs protoc on the PATH. The rules' schema (buf/validate/validate.proto) comes out of the protovalidate module's own
// Go code as a descriptor set, and protoc-gen-go is built from the protobuf module in go.mod, so that the code always fits
// the runtime it is linked with.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const module = "github.com/stoplog/stoplog"

var errNoProtoc = errors.New("protoc is not installed (Debian: apt-get install protobuf-compiler)")

func main() {
	protos := flag.String("proto", "configs/proto", "folder with the .proto files")
	out := flag.String("out", ".", "root of the module to write into")
	flag.Parse()
	err := generate(*protos, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate writes the Go code of every .proto below protos into the packages that they name, out being the module's root.
// It must run inside the module.
func generate(protos, out string) error {
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		return errNoProtoc
	}
	files, err := protoFiles(protos)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "stoplog-gen")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	set := filepath.Join(tmp, "validate.binpb")
	err = writeDescriptorSet(set)
	if err != nil {
		return fmt.Errorf("descriptor set of the rules: %w", err)
	}
	plugin := filepath.Join(tmp, "protoc-gen-go")
	err = run("go", "build", "-o", plugin, "google.golang.org/protobuf/cmd/protoc-gen-go")
	if err != nil {
		return err
	}
	return run(protoc, append([]string{
		"--descriptor_set_in=" + set,
		"--proto_path=" + protos,
		"--plugin=protoc-gen-go=" + plugin,
		"--go_out=" + out,
		"--go_opt=module=" + module,
	}, files...)...)
}

// protoFiles lists the .proto files below root, relative to it, in a stable order.
func protoFiles(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no .proto files below %s", root)
	}
	return files, err
}

// writeDescriptorSet writes validate.proto and everything that it imports, dependencies first, as protoc wants them.
func writeDescriptorSet(path string) error {
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(validate.File_buf_validate_validate_proto)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, strings.TrimSpace(string(out)))
	}
	return nil
}
