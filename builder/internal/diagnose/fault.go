package diagnose

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

// A Fault is one reason why the packages of a program cannot be loaded.
type Fault struct {
	// Diagnostic is the position and the message for the author.
	Diagnostic handler.Diagnostic

	// Remedy is what the go command can do without the author.
	Remedy Remedy

	// Fetch means that the module proxy or the network failed. The author cannot fix it, and a
	// retry may succeed.
	Fetch bool
}

// A Remedy is what the go command can do about a Fault. A higher Remedy includes the lower ones.
type Remedy int

// Remedies complete the go.mod and the go.sum of the program.
const (
	NoRemedy         Remedy = iota
	CompleteGraph           // adds the requirements of all modules
	CompletePackages        // adds what the packages of the program need
)

// The go command reports in prose why it cannot load packages. These seven classes of messages are
// handled specially. All other messages reach the author unchanged.
var (
	// incomplete matches messages about missing lines in a go.mod or a go.sum, which the go command
	// can add.
	incomplete = regexp.MustCompile(`missing go\.sum entry( for go\.mod file)?|updates to go\.mod needed|implicitly required module`)

	// unprovided matches messages about an import that no module provides.
	unprovided = regexp.MustCompile(`(?m)^(?:\S+:\d+:\d+: )?(?:cannot find module providing|no required module provides|module \S+ found.*, but does not contain) package ([^\s:;]+)`)

	// absent matches the answers of a module proxy, or of a directory used as one, about a version
	// that it does not have.
	absent = regexp.MustCompile(`404 Not Found|410 Gone|reading file:\S+: no such file or directory`)

	// mismatched matches messages about a module whose checksum differs from go.sum.
	mismatched = regexp.MustCompile(`verifying \S+: checksum mismatch\s+downloaded:\s+(\S+)\s+go\.sum:\s+(\S+)`)

	// noVersionControl matches messages about a module that would be fetched from version control,
	// which builds do not use.
	noVersionControl = regexp.MustCompile(`GOVCS disallows using \S+ for \S+ [^;\s]+`)
	// unreachable matches all other failures of the module proxy, the checksum database or the
	// connection to them.
	unreachable = regexp.MustCompile(`(?:(?:reading|Get|Head) "?https?://|dial tcp)[^\n]*(?:\n\tserver response:[^\n]*)?`)
)

// disabled is the message of the go command where fetching modules is disabled.
const disabled = "module lookup disabled by GOPROXY=off"

// isUnfetched reports whether a line is about a module that could not be fetched.
func isUnfetched(line string) bool {
	return strings.Contains(line, disabled) || unreachable.MatchString(line)
}

// WithoutFetching is the advice for modules that cannot be fetched.
const WithoutFetching = "vendor the modules with go mod vendor and builder pack, or use a module proxy that has them (GOPROXY on your machine, build.modules.goProxy in the cluster)"

// aboutProgram are messages about the go.mod or the go.sum of the program that do not name a
// module.
var aboutProgram = []string{"go.mod requires go ", "error loading go.mod:", "malformed go.sum:"}

// ModuleFault classifies text, a message of the go command. pkg is the package that the go command
// does not find, and place the position of its import, such as handler/a.go:3:1; both are empty if
// the message is about the whole program. ModuleFault reports false if the message is not about
// modules.
//
// overrides is the method Overrides of the program. It takes tens of milliseconds with a long
// go.mod, so callers with many messages should cache its result.
func ModuleFault(p *program.Program, overrides func() []program.Override, pkg, place, text string) (Fault, bool) {
	if overridden, ok := overriddenPackage(overrides, text); ok {
		return Fault{Diagnostic: overridden}, true
	}
	subject, at, named := subjectModule(p, pkg, text)
	isModule := subject != ""
	subject = cmp.Or(subject, pkg, "go.mod")
	var f Fault
	var message string
	switch {
	case incomplete.MatchString(text):
		if !named { // the author's go.sum must contain what the author's go.mod requires
			f.Remedy = remedy(text)
		}
		message = fmt.Sprintf("go.sum has no checksum of %s; add it with: builder tidy FILE", subject)
		if !strings.Contains(text, "missing go.sum entry") {
			message = "go.mod does not list all modules that the source needs; update it with: builder tidy FILE"
		}
	case mismatched.MatchString(text):
		sums := mismatched.FindStringSubmatch(text)
		message = fmt.Sprintf("the checksum of %s is %s, want %s: the module may have been modified; if go.sum is wrong, remove the line and run: builder tidy FILE", subject, sums[1], sums[2])
	case unprovided.MatchString(text):
		at = cmp.Or(parsePlace(place), at)
		message = missingPackage(p, text)
	case absent.MatchString(text):
		message = fmt.Sprintf("%s not found at the module proxy (%s); check its path and version; if it is private, %s", subject, absent.FindString(text), WithoutFetching)
	case noVersionControl.MatchString(text):
		message = fmt.Sprintf("cannot fetch %s: %s; %s; goPrivate and goNoProxy must not match it, because they bypass the proxy", subject, noVersionControl.FindString(text), WithoutFetching)
	case strings.Contains(text, disabled):
		message = fmt.Sprintf("cannot fetch %s: %s; %s", subject, disabled, WithoutFetching)
	case unreachable.MatchString(text):
		f.Fetch = true
		message = fmt.Sprintf("cannot fetch %s: %s; %s", subject, oneLine(unreachable.FindString(text)), WithoutFetching)
	case pkg == "" && !isModule && !mentions([]string{text}, aboutProgram...):
		return Fault{}, false
	default:
		at, message = verbatim(at, text)
		if !isModule && pkg != "" {
			at = cmp.Or(parsePlace(place), at)
		}
		if isModule && !strings.Contains(message, subject) {
			message = subject + ": " + message
		}
	}
	f.Diagnostic = handler.NewDiagnostic(at.File, at.Line, at.Column, message)
	return f, true
}

// overriddenPackage returns the diagnostic for a package that, according to text, no module
// provides. It reports false unless go.mod overrides the version in which the runtime requires the
// package's module.
func overriddenPackage(all func() []program.Override, text string) (handler.Diagnostic, bool) {
	parts := unprovided.FindStringSubmatch(text)
	if parts == nil {
		return handler.Diagnostic{}, false
	}
	overrides := slices.DeleteFunc(slices.Clone(all()), func(o program.Override) bool {
		return parts[1] != o.Runtime.Path && !strings.HasPrefix(parts[1], o.Runtime.Path+"/")
	})
	if len(overrides) == 0 {
		return handler.Diagnostic{}, false
	}
	return overriddenBy(overrides, "it has no package "+parts[1])[0], true
}

// overriddenBy returns the diagnostics for a program that does not compile with the overrides.
func overriddenBy(overrides []program.Override, reason string) (all []handler.Diagnostic) {
	for _, o := range overrides {
		used, remedy := o.Used.Version, "require "+o.Runtime.Version
		if o.Replaced {
			used = strings.TrimSpace(o.Used.Path + " " + o.Used.Version)
			remedy = fmt.Sprintf("replace it by %s or a newer version, or remove the line", o.Runtime.Version)
		}
		message := fmt.Sprintf("the generated program needs %s %s and does not compile with %s; %s: %s",
			o.Runtime.Path, o.Runtime.Version, used, remedy, strings.TrimSpace(reason))
		all = append(all, handler.NewDiagnostic(o.At.File, o.At.Line, o.At.Column, message))
	}
	return all
}

// remedy returns the Remedy for a message about missing lines in go.mod or go.sum.
func remedy(text string) Remedy {
	if incomplete.FindString(text) == "missing go.sum entry" {
		return CompletePackages
	}
	return CompleteGraph
}

// missingPackage returns the message for an import that no module provides. It returns "" if text
// is about something else.
func missingPackage(p *program.Program, text string) string {
	parts := unprovided.FindStringSubmatch(text)
	switch {
	case parts == nil:
		return ""
	case p.Source.Vendored():
		return fmt.Sprintf("vendor has no package %s; add it with: go mod vendor", parts[1])
	}
	return fmt.Sprintf("no module in go.mod contains the package %s; add it with: builder tidy FILE", parts[1])
}

// ownLine matches a line of the go.mod or the go.sum of the program. The go.sum begins with the
// author's lines; the go.mod is generated.
var ownLine = regexp.MustCompile(`go\.(mod|sum):(\d+): `)

// verbatim returns a message of the go command as one line without positions, and its position in
// the author's files, which is at if the message has none.
func verbatim(at handler.Import, text string) (handler.Import, string) {
	if parts := ownLine.FindStringSubmatch(text); parts != nil && parts[1] == "sum" {
		at.File = "go.sum"
		at.Line, _ = strconv.Atoi(parts[2]) // digits
	}
	lines := slices.DeleteFunc(strings.Split(text, "\n"), isProgress)
	text = strings.TrimPrefix(oneLine(strings.Join(lines, "\n")), "go: ")
	return at, ownLine.ReplaceAllString(text, "")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// mention matches a module with its version in a message.
var mention = regexp.MustCompile(`(?:^|[\s(])(([^\s@":($/][^\s@":(]*)@v[0-9][^\s:@",)/]*)`)

// subjectModule returns the module with its version that a message about pkg is about, the position
// of the author's requirement, and whether the author's go.mod names exactly this version. The
// module is empty if the message names none and the author requires none for pkg.
func subjectModule(p *program.Program, pkg, text string) (subject string, at handler.Import, named bool) {
	at = p.Requirement("")
	// A message names the author's requirement first, and what that needs last. The advice at its
	// end is about the program, which is not the author's.
	text, _, _ = strings.Cut(text, "; to add")
	for _, parts := range mention.FindAllStringSubmatch(text, -1) {
		path := parts[2]
		if path == p.Path {
			continue
		}
		subject = parts[1]
		if found := p.Requirement(path); found.Line > 1 && at.Line == 1 {
			at = found
		}
		m, ok := p.Required(path)
		named = ok && m.String() == subject
	}
	if m, ok := p.Required(pkg); ok && subject == "" {
		at, named = p.Requirement(m.Path), true
		if now := p.Selected()[m.Path]; now != m.Version { // another module needs a newer one
			m.Version, named = now, false
		}
		return m.String(), at, named
	}
	return subject, at, named
}

// parsePlace parses a position in the author's files, such as handler/a.go:3:1. It returns the zero
// Import for others.
func parsePlace(place string) (at handler.Import) {
	parts := strings.Split(place, ":")
	if len(parts) != 3 {
		return handler.Import{}
	}
	file, ok := authorFile(parts[0])
	if !ok {
		return handler.Import{}
	}
	at.File = file
	at.Line, _ = strconv.Atoi(parts[1]) // digits
	at.Column, _ = strconv.Atoi(parts[2])
	return at
}

// FaultsError returns a *handler.Error if the author can fix any of the faults, an ErrFetch if all
// are failed fetches, and nil without faults.
func FaultsError(faults []Fault) error {
	var fixable, wait []handler.Diagnostic
	for _, f := range faults {
		if f.Fetch {
			wait = append(wait, f.Diagnostic)
		} else {
			fixable = append(fixable, f.Diagnostic)
		}
	}
	switch {
	case len(fixable) > 0:
		return NewError(fixable)
	case len(wait) > 1:
		return fmt.Errorf("%w: %s (and %d more)", ErrFetch, wait[0].Message, len(sorted(wait))-1)
	case len(wait) > 0:
		return fmt.Errorf("%w: %s", ErrFetch, wait[0].Message)
	}
	return nil
}

// sorted returns the diagnostics sorted by position, without duplicates.
func sorted(all []handler.Diagnostic) []handler.Diagnostic {
	slices.SortFunc(all, handler.Diagnostic.Compare)
	return slices.Compact(all)
}
