// Command chart derives the Helm chart of Goless from the files of deploy/, so that
// nothing is written twice. deploy/chart/chart.yaml says which files are in the chart and
// what can be set; everything else in deploy/chart is copied into it.
//
// Usage:
//
//	chart -deploy deploy -version 0.1.0 -o DIR [-image IMPORTPATH=REFERENCE]...
//
// It writes the chart to DIR, which must not exist, as helm package takes it. The flag -image
// gives the image that ko has built of an import path. Without the flag, the chart names import
// paths as deploy/ does.
//
//	table.go     what chart.yaml says
//	chart.go     which files the chart has
//	template.go  how a file of deploy/ becomes a template
//	marks.go     how text that is not YAML comes into a template
//	node.go      how a node of a document is found
//	values.go    the defaults of what can be set
//	schema.go    the types of what can be set
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
