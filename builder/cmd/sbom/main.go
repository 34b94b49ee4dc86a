// Command sbom completes the software bills of materials (SBOMs) of a release, in the format SPDX
// 2.3. ko writes the SBOMs of images, which contain the modules of their programs. sbom adds the
// standard library, and what the builder's image contains for compiling functions.
//
//	sbom program FILE >BILL            SBOM of a Go program
//	sbom functions PLAN >BILL          SBOM of the modules that a function without a go.mod can be linked with
//	sbom image BILL [PLAN] >COMPLETED  SBOM written by ko, completed with what ko omits
//
// PLAN is the file plan.json that the command kodata writes: how the builder compiles functions
// without the go command (compile.Plan). The time in an SBOM is SOURCE_DATE_EPOCH, so that equal
// programs have equal SBOMs.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/toolchain"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 || len(args) > 3 || len(args) == 3 && args[0] != "image" {
		return errors.New("usage: sbom program FILE | functions PLAN | image BILL [PLAN]")
	}
	var bill document
	var err error
	switch args[0] {
	case "program":
		bill, err = ofProgram(args[1])
	case "functions":
		bill, err = ofFunctions(args[1])
	case "image":
		bill, err = completed(args[1], args[2:])
	default:
		err = fmt.Errorf("unknown command %s", args[0])
	}
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(bill)
}

func ofProgram(file string) (document, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return describe(filepath.Base(file), info)
}

func ofFunctions(plan string) (document, error) {
	info, err := linked(plan)
	if err != nil {
		return nil, err
	}
	return describe("functions", info)
}

// linked returns what every function is linked with: the runtime and its modules. The plan contains
// it in the format that the linker writes to programs.
func linked(file string) (*debug.BuildInfo, error) {
	plan, err := compile.ReadPlan(file)
	if err != nil {
		return nil, err
	}
	text, err := strconv.Unquote(plan.TracingModules)
	const magic = 16 // bytes, before the text and after it
	if err != nil || len(text) < 2*magic {
		return nil, fmt.Errorf("%s contains the modules %q, which the linker does not record", file, plan.TracingModules)
	}
	info, err := debug.ParseBuildInfo(text[magic : len(text)-magic])
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", file, err)
	}
	info.GoVersion = toolchain.Pinned
	return info, nil
}

// completed returns an SBOM written by ko, completed with the standard library and with what
// functions are linked with. The program of the image must have been compiled with the same version
// of Go as this program.
func completed(file string, plans []string) (document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	bill := document{}
	if err := json.Unmarshal(text, &bill); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	program := bill.contained()
	if program == "" {
		return bill, nil // SBOM of an index, which contains images but no program
	}
	bill.add(program, "DEPENDS_ON", standardLibrary(runtime.Version()))
	for _, plan := range plans {
		info, err := linked(plan)
		if err != nil {
			return nil, err
		}
		for _, part := range parts(info) {
			bill.add(program, "DEPENDS_ON", part)
		}
	}
	return bill, nil
}

// describe returns the SBOM of a program.
func describe(name string, info *debug.BuildInfo) (document, error) {
	created, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH must be the time of the bill, in seconds: %w", err)
	}
	bill := document{
		"spdxVersion": "SPDX-2.3",
		"dataLicense": "CC0-1.0",
		"SPDXID":      "SPDXRef-DOCUMENT",
		"name":        name,
		"creationInfo": map[string]any{
			"created":  time.Unix(created, 0).UTC().Format(time.RFC3339),
			"creators": []string{"Tool: goless.io/builder/cmd/sbom"},
		},
		"documentNamespace": fmt.Sprintf("https://goless.io/spdx/%s/%d", name, created),
	}
	program := module(name, "")
	bill.add("SPDXRef-DOCUMENT", "DESCRIBES", program)
	for _, part := range parts(info) {
		bill.add(program["SPDXID"].(string), "DEPENDS_ON", part)
	}
	return bill, nil
}

// parts returns the packages that a program is linked with.
func parts(info *debug.BuildInfo) []pkg {
	all := []pkg{standardLibrary(info.GoVersion)}
	for _, dep := range info.Deps {
		if dep.Replace != nil && dep.Replace.Version != "" {
			dep = dep.Replace
		}
		all = append(all, module(dep.Path, dep.Version))
	}
	return all
}

// standardLibrary returns the standard library of a Go version, with the name that scanners use.
func standardLibrary(version string) pkg {
	return module("stdlib", strings.TrimPrefix(version, "go"))
}
