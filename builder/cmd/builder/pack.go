package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/input"
)

const packExample = `  # the Go module in this directory
  builder pack . > function.yaml

  # and apply it at once
  builder pack --name hello ./hello | kubectl apply -f -

  # a new source for a Function whose other fields stay
  builder pack --into deploy/hello.yaml ./hello`

func newPack(s streams) *cobra.Command {
	p := &pack{diagnostics: diagnostics{streams: s}}
	cmd := &cobra.Command{
		Use:   "pack FILE",
		Short: "Make the YAML of a Function from a directory or a source",
		Long: `Make the YAML of a Function from a directory or a source.

All files of a directory become part of the Function, but for those whose name
begins with a dot, modules of their own below it, and compiled programs. What
unpack makes of the YAML is the same again, byte for byte, or else pack says
which file cannot be held.`,
		Example:           packExample,
		Args:              arguments,
		ValidArgsFunction: completeFiles,
		RunE:              func(_ *cobra.Command, args []string) error { return p.run(args[0]) },
	}
	p.addFlag(cmd)
	cmd.Flags().StringVar(&p.name, "name", "", "metadata.name of the Function (default that of the module, directory or file)")
	cmd.Flags().StringVar(&p.output, "output-file", "", "write to `file` (default standard output)")
	cmd.Flags().StringVar(&p.into, "into", "", "replace the source in the Function YAML `file`, and nothing else in it")
	cmd.MarkFlagsMutuallyExclusive("output-file", "into")
	return cmd
}

type pack struct {
	diagnostics
	name, output, into string
}

func (p *pack) run(path string) error {
	function := p.readOne(path, "")
	if function == nil {
		return p.end()
	}
	_, err := handler.Parse(handler.Filename, function.Source)
	p.fail(function, err)
	if err == nil {
		p.fail(nil, lossless(function))
	}
	if p.code != 0 {
		return p.end()
	}
	p.fail(nil, p.write(function))
	return p.end()
}

func (p *pack) write(function *input.Function) error {
	if p.into != "" {
		target := p.readOne(p.into, p.name)
		if target == nil {
			return nil // it is told why
		}
		edit, err := target.Replace(function.Source)
		if err != nil {
			return err
		}
		return p.apply([]input.Edit{edit})
	}
	name := p.name
	if name == "" {
		name = label(function.Name)
	}
	if name == "" {
		return fmt.Errorf("no name can be made of %q, choose one with --name", function.Name)
	}
	if !isLabel(name) {
		return fmt.Errorf("%q is no name for a Function, choose one of lower case letters, digits and - with --name", name)
	}
	manifest, err := input.Manifest(name, function.Source)
	if err != nil {
		return err
	}
	if p.output != "" {
		return os.WriteFile(p.output, manifest, 0o644)
	}
	_, err = p.out.Write(manifest)
	return err
}

// lossless returns an error that names the first file which would come back from
// the source as another one.
func lossless(function *input.Function) error {
	back := handler.Split(handler.Filename, function.Source)
	for i, file := range function.Files() {
		at := function.Locate(handler.Diagnostic{File: file.Name, Line: 1, Message: "the file cannot be packed as it is"})
		if len(file.Data) > 0 && !bytes.HasSuffix(file.Data, []byte("\n")) {
			at.Message = "the file has no line break at its end, which an archive would add: add one"
			at.Line += bytes.Count(file.Data, []byte("\n"))
		}
		if i >= len(back) || back[i].Name != file.Name || !bytes.Equal(back[i].Data, file.Data) {
			return &handler.Error{Diagnostics: []handler.Diagnostic{at}}
		}
	}
	return nil
}

var notInLabel = regexp.MustCompile(`[^a-z0-9]+`)

// label makes a DNS label of a name, as well as that can be done.
func label(name string) string {
	name = strings.Trim(notInLabel.ReplaceAllString(strings.ToLower(filepath.Base(name)), "-"), "-")
	return strings.TrimRight(name[:min(len(name), 63)], "-")
}

func isLabel(name string) bool { return name != "" && label(name) == name }
