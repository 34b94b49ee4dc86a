package gotool

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// A fault is one reason why a program cannot be loaded.
type fault struct {
	diagnostic handler.Diagnostic
	remedy     remedy
	fetch      bool // the author has no part in it
}

// A remedy is what may complete a program that cannot be loaded.
type remedy int

const (
	noRemedy         remedy = iota
	completeGraph           // of modules
	completePackages        // that some module of the graph has
)

// A rule says what a message of the go command means to people.
type rule struct {
	sign *regexp.Regexp
	fault

	// imported means that the place is the import, and the subject the package.
	// Otherwise they are the requirement and the module with its version.
	imported bool

	// says is the message. Its verbs are the subject, and what sign has found.
	says string
}

var (
	author = fault{}
	fetch  = fault{fetch: true}
)

// noPackage is said of an import.
const noPackage = "no module of go.mod has the package %s, add it with: builder tidy FILE"

// rules are tried in this order.
var rules = []rule{
	{sign: regexp.MustCompile(`checksum mismatch`), fault: author, says: "SECURITY: the checksum of %s is not the one that it had when go.sum was written; find out which of them is wrong, then write go.sum anew with: builder tidy FILE"},
	{sign: regexp.MustCompile(`missing go.sum entry for go.mod file`), fault: fault{remedy: completeGraph}, says: "go.sum has no checksum of %s, write it with: builder tidy FILE"},
	{sign: regexp.MustCompile(`missing go.sum entry`), fault: fault{remedy: completePackages}, says: "go.sum has no checksum of %s, write it with: builder tidy FILE"},
	{sign: regexp.MustCompile(`updates to go.mod needed|implicitly required module`), fault: fault{remedy: completeGraph}, says: "go.mod does not list all that the source needs, write it anew with: builder tidy FILE"},
	{sign: regexp.MustCompile(`module providing package|no required module provides package|does not contain package`), fault: author, imported: true, says: noPackage},
	{sign: regexp.MustCompile(`is not in std`), fault: author, imported: true, says: "package %s is not in std"},
	{sign: regexp.MustCompile(`ambiguous import: found package`), fault: author, imported: true, says: "more than one module of go.mod has the package %s, require newer versions of them"},
	{sign: regexp.MustCompile(`disabled by GOPROXY=off`), fault: author, says: "%s cannot be fetched: the administrator of the cluster has turned it off (GOPROXY=off); ask for it, or put the modules into the source with: go mod vendor, builder pack"},
	{sign: regexp.MustCompile(`(?m)40[13] (Unauthorized|Forbidden)[^\n]*(\n\tserver response:[^\n]*)?`), fault: fetch, says: "%s is refused by the module proxy (%s); where it needs credentials, the administrator of the cluster can give them to builds in a netrc file"},
	{sign: regexp.MustCompile(`404 Not Found|410 Gone|unknown revision|invalid version|no matching versions`), fault: author, says: "there is no %s at the module proxy (%s), check its path and version"},
	{sign: regexp.MustCompile(`x509: [^\n]*|tls: [^\n]*`), fault: fetch, says: "%s cannot be fetched: the certificate of the module proxy is not trusted (%s); the administrator of the cluster can give builds the certificate authority"},
	{sign: regexp.MustCompile(`GOVCS disallows|executable file not found`), fault: author, says: "%s is not at the module proxy, and builds use no version control: publish it at the proxy, or put it into the source with: go mod vendor, builder pack"},
	{sign: regexp.MustCompile(`unknown godebug "[^"]*"|malformed go\.sum`), fault: author, says: "%s: %s, remove it"},
	{sign: regexp.MustCompile(`requires go >= [0-9.]+`), fault: author, says: "%s %s, which is newer than the toolchain: require an older version"},
	{sign: regexp.MustCompile(`module declares its path as: [^\s]+`), fault: author, says: "%s has another path (%s), require it by that"},
	{sign: regexp.MustCompile(`(reading|Get|Head) "?https?://[^\n]*|dial tcp[^\n]*|no such host|i/o timeout|connection refused`), fault: fetch, says: "%s cannot be fetched: the module proxy does not answer as it should (%s)"},
}

// newFault makes a fault of a message about a package, or about the module that
// it names, if one of the rules knows it. The place is where the package is
// imported.
func newFault(p *program.Program, pkg, place, text string) (fault, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.sign.MatchString(text) })
	if i < 0 {
		return fault{}, false
	}
	r, found := rules[i], strings.Join(strings.Fields(rules[i].sign.FindString(text)), " ")
	subject, at, named := subjectModule(p, pkg, text)
	if r.imported {
		subject = pkg
		if imported, ok := parsePlace(place); ok {
			at = imported
		}
	}
	if subject == goMod && strings.HasPrefix(found, "requires go ") {
		at, r.says = goDirective(p), "%s %s, which is newer than the toolchain: write an older version there, or install a newer Go"
	}
	f := r.fault
	if named && r.remedy != noRemedy {
		// What the author's go.mod names, go.sum has to name too.
		f.remedy = noRemedy
	}
	message := r.says
	switch strings.Count(message, "%s") {
	case 1:
		message = fmt.Sprintf(message, subject)
	case 2:
		message = fmt.Sprintf(message, subject, found)
	}
	f.diagnostic = handler.NewDiagnostic(at.File, at.Line, at.Column, message)
	return f, true
}

// mention matches a module and its version in a message.
var mention = regexp.MustCompile(`(?:^|[\s(])(([^\s@":(]+)@v[0-9][^\s:@",)]*)`)

// subjectModule returns the module, with its version, that a message about a
// package is about, the place of what requires it, and whether the author's
// go.mod names this very version.
func subjectModule(p *program.Program, pkg, text string) (subject string, at handler.Import, named bool) {
	at = requirement(p, "")
	// A message names first what the author requires, and last what that needs.
	// What it says of a remedy is about the program, which is not the author's.
	text, _, _ = strings.Cut(text, "; to add")
	for _, parts := range mention.FindAllStringSubmatch(text, -1) {
		path := parts[2]
		if path == p.Path {
			continue
		}
		subject = parts[1]
		if found := requirement(p, path); found.Line > 1 && at.Line == 1 {
			at = found
		}
		m, ok := required(p, path)
		named = ok && m.String() == subject
	}
	if m, ok := required(p, pkg); ok && subject == "" {
		at, named = requirement(p, m.Path), true
		if now := selected(p, m.Path); now != m.Version { // something else needs a newer one
			m.Version, named = now, false
		}
		return m.String(), at, named
	}
	return cmp.Or(subject, pkg, goMod), at, named
}

// parsePlace reads a place in the author's files, such as handler/a.go:3:1.
func parsePlace(place string) (at handler.Import, ok bool) {
	parts := strings.Split(place, ":")
	if len(parts) != 3 {
		return at, false
	}
	at.File, ok = authorFile(parts[0])
	at.Line, _ = strconv.Atoi(parts[1]) // digits
	at.Column, _ = strconv.Atoi(parts[2])
	return at, ok
}

// remedyFor returns what may complete a program with these faults. There is none
// for several of which one has none.
func remedyFor(faults []fault) remedy {
	best := noRemedy
	for _, f := range faults {
		if f.remedy == noRemedy {
			return noRemedy
		}
		best = max(best, f.remedy)
	}
	return best
}

// faultsError makes an error of faults, nil of none. What the author can mend
// comes before what may pass.
func faultsError(faults []fault) error {
	var mend, wait []handler.Diagnostic
	for _, f := range faults {
		if f.fetch {
			wait = append(wait, f.diagnostic)
		} else {
			mend = append(mend, f.diagnostic)
		}
	}
	switch {
	case len(mend) > 0:
		return compileError(sorted(mend), false)
	case len(wait) > 1:
		return fmt.Errorf("%w: %s (and %d more)", ErrFetch, wait[0].Message, len(sorted(wait))-1)
	case len(wait) > 0:
		return fmt.Errorf("%w: %s", ErrFetch, wait[0].Message)
	}
	return nil
}

// sorted returns the diagnostics by place, each of them once.
func sorted(all []handler.Diagnostic) []handler.Diagnostic {
	slices.SortStableFunc(all, func(a, b handler.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(all)
}
