package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/builds"
	"goless.io/test/faults/kubelet"
	"goless.io/test/faults/plane"
	"goless.io/test/faults/wire"
)

// harness is shared by the cases of a test. It contains a control plane, and a wire for one
// operator at a time.
type harness struct {
	plane   *plane.Plane
	client  client.Client // of a user with all permissions
	witness *witness

	// renew restarts the node and the witness without their state. It is required when the
	// order of versions is broken.
	renew func() error

	audit  *audit
	wire   *wire.Wire
	builds *builds.Service

	settings string // the file with those of the operators

	// strategy is the build strategy of Functions that do not set one.
	strategy v1beta1.BuildStrategy

	mu        sync.Mutex
	scratches map[string]state // the children of new Functions, by spec
	operator  *plane.Process
	away      bool // other operators replace it
	stopping  bool
}

// everythingOn are settings with which Functions have all possible objects. They are compiled
// in their pods, unless a test sets another strategy.
const everythingOn = plane.InPod + "networkPolicy: true\n"

// newHarness starts a control plane, a node and an operator.
func newHarness(ctx context.Context, assets, repo string) (_ *harness, err error) {
	p, err := plane.Start(ctx, assets, repo)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(p.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	server, token := p.Upstream()
	line, err := wire.New("operator", server, token)
	if err != nil {
		return nil, err
	}
	service := builds.Start(sharedSeed(c))
	settings, err := p.Settings(everythingOn)
	if err != nil {
		return nil, err
	}
	process, err := p.Operator(*operator, "operator", line.URL, "--build-service="+service.URL, "--config="+settings)
	if err != nil {
		return nil, err
	}
	h := &harness{
		plane: p, client: c, audit: &audit{events: map[string][]plane.Event{}}, wire: line, operator: process, builds: service, settings: settings,
		scratches: map[string]state{},
	}
	stop := func() {}
	h.renew = func() (err error) {
		stop()
		var now context.Context
		now, stop = context.WithCancel(ctx)
		h.witness, err = newWitness(now, p.Config)
		return errors.Join(err, kubelet.Start(now, p.Config))
	}
	return h, errors.Join(h.renew(), process.Start())
}

func (h *harness) close() {
	h.mu.Lock()
	h.stopping = true
	h.mu.Unlock()
	h.operator.Kill()
	h.wire.Close()
	h.builds.Close()
	h.plane.Stop()
}

// restart kills the operator and starts the next one, as a kubelet would.
func (h *harness) restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return
	}
	h.operator.Kill()
	if err := h.operator.Start(); err != nil {
		panic(err)
	}
}

// unbroken fails the test if the operator has exited, panicked, or has a data race.
func (h *harness) unbroken(t *testing.T) {
	t.Helper()
	h.mu.Lock() // a fault may be restarting it
	defer h.mu.Unlock()
	select {
	case <-h.operator.Ended():
		if h.away {
			return
		}
		t.Errorf("the operator exited unexpectedly; its log ends with:\n%s", tail(h.operator.Log))
		if err := h.operator.Start(); err != nil {
			t.Fatal(err)
		}
	default:
	}
	sound(t, h.operator.Log)
}

// unsound matches a panic or a data race in the log of an operator.
var unsound = regexp.MustCompile(`(?m)^.*(panic|WARNING: DATA RACE)`)

// sound fails the test if a log contains a panic or a data race.
func sound(t *testing.T, log string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if place := unsound.FindIndex(text); place != nil {
		t.Errorf("the operator panicked, or has a data race:\n%s", text[place[0]:min(len(text), place[0]+4096)])
	}
}

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text[max(0, len(text)-4096):])
}
