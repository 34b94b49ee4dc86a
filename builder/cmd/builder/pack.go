package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/manifest"
)

const packExample = `  # convert the Go module in the directory hello
  builder pack ./hello > hello.yaml

  # pack and apply in one step
  builder pack --name hello ./hello | kubectl apply -f -

  # replace the source of a Function, and keep its other fields
  builder pack --into deploy/hello.yaml ./hello`

func newPack(s streams) *cobra.Command {
	p := &pack{diagnostics: diagnostics{streams: s}}
	cmd := &cobra.Command{
		Use:   "pack FILE",
		Short: "Create the YAML of a Function from a directory or a source",
		Long: `Create the YAML of a Function from a directory or a source.

All files of a directory become part of the Function, except other modules below
it and go.work. The following are included only if a Go file embeds them: files
whose name starts with a dot, compiled programs, other files that are not text,
and the YAML of Functions. The command unpack restores the same bytes, except
that it adds a missing newline at the end of a text.`,
		Example:           packExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(_ *cobra.Command, args []string) error { return p.run(args[0]) },
	}
	p.addFlag(cmd)
	cmd.Flags().StringVar(&p.name, "name", "", "metadata.name of the Function (default: the name of the module, directory or file)")
	cmd.Flags().StringVar(&p.into, "into", "", "replace only the source in the Function YAML `file`")
	return cmd
}

type pack struct {
	diagnostics
	name, into string
}

func (p *pack) run(path string) error {
	function := p.readOne(path, "")
	if function == nil {
		return p.end()
	}
	_, err := handler.Parse(handler.Filename, function.Source)
	p.fail(function, err)
	if p.code != 0 {
		return p.end()
	}
	p.fail(nil, p.write(function))
	return p.end()
}

func (p *pack) write(function *manifest.Function) error {
	if p.into != "" {
		target := p.readOne(p.into, p.name)
		switch {
		case target == nil:
			return nil // readOne has added the error
		case target.YAML() == nil:
			return fmt.Errorf("%s is not YAML with a Function", p.into)
		}
		edit, err := target.Replace(function.Source)
		if err != nil {
			return err
		}
		return p.apply([]manifest.Edit{edit})
	}
	name, err := nameFor(function, p.name)
	if err != nil {
		return err
	}
	manifest, err := manifest.Format(name, function.Source)
	if err != nil {
		return err
	}
	_, err = p.out.Write(manifest)
	return err
}

// nameFor returns the name of a Function in YAML: chosen, or else one that is derived from its file
// or directory.
func nameFor(function *manifest.Function, chosen string) (string, error) {
	name := cmp.Or(chosen, label(function.Name))
	if name == "" {
		return "", fmt.Errorf("cannot derive a name from %q; set one with --name", function.Name)
	}
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("%w; set another name with --name", err)
	}
	return name, nil
}

var notInLabel = regexp.MustCompile(`[^a-z0-9]+`)

// label converts a name to a DNS label. The result is empty if the name contains no letters or
// digits.
func label(name string) string {
	name = strings.Trim(notInLabel.ReplaceAllString(strings.ToLower(filepath.Base(name)), "-"), "-")
	return strings.TrimRight(name[:min(len(name), maxLabel)], "-")
}

// isLabel matches the name of a Function of any length. The maximum length is maxLabel.
var isLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

const maxLabel = 63

// checkName returns an error if name is not a valid name of a Function.
func checkName(name string) error {
	if len(name) > maxLabel || !isLabel.MatchString(name) {
		return fmt.Errorf("%q is not a valid name: use at most %d lower case letters, digits and -, starting and ending with a letter or digit", name, maxLabel)
	}
	return nil
}
