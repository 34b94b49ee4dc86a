// Command chart generates the Helm chart of Goless from the manifests in deploy/.
// deploy/chart/chart.yaml lists the files of the chart and the values that users can set.
// Everything else in deploy/chart is copied.
//
// Usage:
//
//	chart -deploy deploy -version 0.1.0 -o DIR [-image IMPORTPATH=REFERENCE]...
//
// It writes the chart to DIR, which must not exist. Run helm package on DIR. -image sets the image
// that ko has built for an import path; without it the chart contains import paths, as deploy/
// does.
//
//	table.go         reads chart.yaml
//	chart.go         collects the files of the chart
//	template.go      converts a manifest to a template
//	placeholders.go  inserts template actions into YAML
//	node.go          finds a node of a document
//	values.go        generates values.yaml
//	schema.go        generates values.schema.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	images := map[string]string{}
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	deploy := flags.String("deploy", "deploy", "the directory `DIR` to derive the chart from")
	version := flags.String("version", "0.0.0", "the version of the chart and of Goless")
	out := flags.String("o", "", "the directory `DIR` to write, which must not exist")
	flags.Func("image", "the image of an import path, as `IMPORTPATH=REFERENCE`", func(pair string) error {
		path, reference, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("want IMPORTPATH=REFERENCE")
		}
		images["ko://"+path] = reference
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() > 0 {
		return errors.New("usage: chart -o DIR [flags], see chart -help")
	}
	c, err := derive(*deploy, *version, images)
	if err != nil {
		return err
	}
	return c.write(*out)
}
