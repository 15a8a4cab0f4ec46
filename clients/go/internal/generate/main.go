// Generate writes the package workerv1 from the protobuf source, without needing protoc: the
// compiler and the plugins are Go modules, pinned in go.mod.
//
//	go generate ./...     writes
//	go run ./internal/generate -check ...     compares, and fails where they differ
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source  = "lockstep/worker/v1/worker.proto"
	mapping = "paths=source_relative,M" + source + "=lockstep.dev/clients/go/workerv1;workerv1"
)

func main() {
	log.SetFlags(0)
	from := flag.String("proto", "../../proto", "the folder of the protobuf sources")
	to := flag.String("out", "workerv1", "the folder of the package")
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	files, err := compile(*from)
	if err != nil {
		log.Fatalf("generate: %v", err)
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(plugin, files, *to, *check); err != nil {
			log.Fatalf("generate: %v", err)
		}
	}
}

// compile gives the descriptors of the source and of what it imports, imports first.
func compile(folder string) ([]*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become documentation
	}
	compiled, err := compiler.Compile(context.Background(), source)
	if err != nil {
		return nil, err
	}
	var files []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		files = append(files, protoutil.ProtoFromFileDescriptor(file))
	}
	add(compiled[0])
	return files, nil
}

// generate runs one plugin, which reads a request and writes its files into the answer.
func generate(plugin string, files []*descriptorpb.FileDescriptorProto, folder string, check bool) error {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String(mapping),
		ProtoFile:      files,
	})
	if err != nil {
		return err
	}
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(request), os.Stderr
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", plugin, answer.GetError())
	}
	for _, file := range answer.GetFile() {
		path := filepath.Join(folder, filepath.Base(file.GetName()))
		if err := settle(path, []byte(file.GetContent()), check); err != nil {
			return err
		}
	}
	return nil
}

func settle(path string, content []byte, check bool) error {
	if !check {
		return os.WriteFile(path, content, 0o644)
	}
	have, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(have, content) {
		err = fmt.Errorf("%s is not what the protobuf source gives: run `go generate ./...` in clients/go", path)
	}
	return err
}
