package main

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/node"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"upp"}, {"-nosuchflag", "up"}} {
		if err := run(t.Context(), args); !errors.Is(err, errUsage) {
			t.Errorf("cluster %q: %v, want errUsage", args, err)
		}
	}
}

// TestEnvironment reads the file as users do, from a path that needs quoting.
func TestEnvironment(t *testing.T) {
	c := newCluster(checkout.Checkout{Root: "/tmp/it's here $HOME"})
	n := node.Node{Checkout: c.checkout, Number: 1, Ports: checkout.Ports{API: 20001, Registry: 20002}}
	script := c.environment(n) + `printf '%s\n' "$KUBECONFIG" "$KO_DOCKER_REPO" "$KO_DEFAULTBASEIMAGE" "$PATH"`
	shell := exec.Command("/bin/sh", "-eu", "-c", script)
	shell.Env = []string{"PATH=/bin"}
	got, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := `/tmp/it's here $HOME/.cache/cluster/kubeconfig
127.0.0.1:20002
127.0.0.1:20002/base/static:latest
/tmp/it's here $HOME/.cache/bin:/bin
`
	if string(got) != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestWanted(t *testing.T) {
	for _, test := range []struct {
		kubernetes, nodes string
		want              settings
		fails             bool
	}{
		{want: settings{Nodes: 1}},
		{kubernetes: "1.30", nodes: "2", want: settings{Kubernetes: "1.30", Nodes: 2}},
		{nodes: "2", want: settings{Nodes: 2}},
		{kubernetes: "1.12", fails: true},
		{nodes: "0", fails: true},
		{nodes: "3", fails: true},
		{nodes: "two", fails: true},
	} {
		t.Setenv("KUBERNETES", test.kubernetes)
		t.Setenv("NODES", test.nodes)
		got, err := wanted(defaults)
		if (err != nil) != test.fails || err == nil && got != test.want {
			t.Errorf("KUBERNETES=%s NODES=%s: %+v, %v", test.kubernetes, test.nodes, got, err)
		}
	}
}

func TestRunningClusterKeepsItsSettings(t *testing.T) {
	c := newCluster(checkout.Checkout{Root: t.TempDir()})
	if err := os.MkdirAll(c.checkout.State(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.store(settings{Kubernetes: "1.30", Nodes: 2}); err != nil {
		t.Fatal(err)
	}
	if err := c.unchanged(); err != nil {
		t.Errorf("without variables: %v", err)
	}
	t.Setenv("NODES", "2")
	if err := c.unchanged(); err != nil {
		t.Errorf("with the same number of nodes: %v", err)
	}
	t.Setenv("NODES", "1")
	if err := c.unchanged(); err == nil {
		t.Error("with another number of nodes: no error")
	}
}

func TestRunningIsWhoHoldsTheLock(t *testing.T) {
	c := newCluster(checkout.Checkout{Root: t.TempDir()})
	wantPID(t, c, 0)
	if err := os.MkdirAll(c.checkout.Cache(), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := c.lockPID()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.WriteString("4711\n"); err != nil {
		t.Fatal(err)
	}
	wantPID(t, c, 4711)
	// The process exits. Its ID stays in the file, but is no longer valid.
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	wantPID(t, c, 0)
}

func wantPID(t *testing.T, c cluster, want int) {
	t.Helper()
	if pid, err := c.running(); err != nil || pid != want {
		t.Errorf("running = %d, %v, want %d", pid, err, want)
	}
}

func TestWaitGone(t *testing.T) {
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// No process has waited for it yet. A zombie counts as gone.
	if err := waitGone(sleeper.Process.Pid); err != nil {
		t.Error(err)
	}
	_ = sleeper.Wait()
	if err := waitGone(sleeper.Process.Pid); err != nil {
		t.Error(err)
	}
}
