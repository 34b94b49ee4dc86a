package compile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

const (
	// vetMemory is the memory limit of go vet, in bytes, in addition to the build's. Go vet never
	// gets more than the build. The largest source needs a third of it. A build must not run out of
	// memory because of its warnings.
	vetMemory = 256 << 20

	// vetTimeout is the timeout of go vet. It mostly takes less time than the linker, which runs at
	// the same time.
	vetTimeout = 10 * time.Second

	// maxWarnings is the maximum number of findings in a Result, the same as that of diagnostics in
	// an error.
	maxWarnings = 100
)

// errVetTimeout means that go vet was stopped at its timeout.
var errVetTimeout = errors.New("go vet took too long")

// Vet returns the findings of go vet in the author's packages: the first hundred, sorted by file
// and position, and the number of further ones. It uses the Program and the Timeout of b. The error
// is that of Build if the packages do not compile.
func Vet(ctx context.Context, t *toolchain.Toolchain, b Options) (findings []handler.Diagnostic, omitted int, err error) {
	work, err := os.MkdirTemp("", "goless-vet-")
	if err != nil {
		return nil, 0, fmt.Errorf("creating a directory for the compiler: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	b.Output, b.Vet, b.vetTimeout = filepath.Join(work, "server"), true, b.Timeout
	result, err := Build(ctx, t, b)
	if err != nil {
		return nil, 0, err
	}
	return result.Warnings, result.Omitted, result.VetError
}

// A vetting is a run of go vet in the background.
type vetting struct {
	cancel   context.CancelFunc
	ended    chan struct{}
	findings []handler.Diagnostic
	err      error
}

// startVet starts go vet on the author's packages. exports are the files of the compiled packages
// of the program, by import path.
func startVet(ctx context.Context, t *toolchain.Toolchain, b Options, work workspace, exports map[string]string) *vetting {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(b.vetTimeout, vetTimeout), errVetTimeout)
	v := &vetting{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		defer func() {
			if p := recover(); p != nil { // a build service also builds for other authors
				v.err = fmt.Errorf("the builder panicked, which is a bug in Goless: %v", p)
			}
		}()
		v.findings, v.err = vet(ctx, t, b, work, exports)
	}()
	return v
}

// wait returns the findings. A nil vetting has none.
func (v *vetting) wait() ([]handler.Diagnostic, error) {
	if v == nil {
		return nil, nil
	}
	defer v.cancel()
	<-v.ended
	return v.findings, v.err
}

// stop ends a vetting whose findings are not needed.
func (v *vetting) stop() {
	if v != nil {
		v.cancel()
		<-v.ended
	}
}

// vet runs the toolchain's vet command on the author's packages, one process per package. The go
// command would also analyze every dependency, for example to find functions that wrap Printf.
// Analyzing only the author's packages takes 50 milliseconds instead of 10 seconds.
func vet(ctx context.Context, t *toolchain.Toolchain, b Options, work workspace, exports map[string]string) ([]handler.Diagnostic, error) {
	p, memory := b.Program, uint64(vetMemory)
	if b.Memory > 0 {
		memory = min(memory, uint64(b.Memory))
	}
	configs, err := vetConfigs(t, p, work.vet, exports)
	if err != nil {
		return nil, err
	}
	commands, err := vetCommands(t, configs)
	if err != nil {
		return nil, err
	}
	r, err := sandbox.Run(ctx, sandbox.Command{
		Policy: sandbox.Policy{Read: vetReads(t, p, work), Write: []string{work.vet}, Open: !t.Sealed, Memory: memory},
		Dir:    p.Dir,
		Env:    []string{"GOMAXPROCS=" + strconv.Itoa(min(2, t.MaxProcessors()))}, // leaves processors to the linker
		Args:   []string{commandsMode},
		Stdin:  bytes.NewReader(commands),
		Quota:  t.Quota(b.space, b.files, work.dir, p.Dir), // the quota of the build ends with the linker
	})
	if err != nil {
		if r != nil && r.Stderr.Len() > 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(r.Stderr.String()), "\n")
			err = fmt.Errorf("%w: %s", err, first)
		}
		return nil, fmt.Errorf("running go vet: %w", err)
	}
	return allFindings(p, configs)
}

// vetReads returns the directories that contain packages, compiled or not.
func vetReads(t *toolchain.Toolchain, p *program.Program, work workspace) []string {
	read := []string{t.Cache, t.Root, p.Dir, work.dir}
	if t.Dependencies != "" {
		read = append(read, t.Dependencies)
	}
	return read
}
