// Package installcheck checks an installation of Goless and changes nothing in the cluster. helm
// test runs it as goless-operator check.
package installcheck

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"goless.io/operator/api/v1beta1"
)

const handler = `package check

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// Command checks, with the flags in args, that:
//
//   - the operator and the build service are ready
//   - an operator is the leader
//   - a valid Function is accepted in a dry run
//   - the webhook rejects a Function that does not parse, unless --admission=false
//
// Each check is retried for two minutes. The successful checks are written to out. The error
// describes the failed checks.
func Command(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("goless-operator check", flag.ExitOnError)
	namespace := flags.String("namespace", "goless-system", "namespace of Goless")
	admission := flags.Bool("admission", true, "require that an invalid Function is rejected")
	config.RegisterFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	log.SetLogger(zap.New())
	cfg, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	return run(out, cfg, *namespace, *admission, 2*time.Minute)
}

// run repeats all checks once a second until all of them succeed, or until timeout. It writes the
// successful checks to out and returns the errors of the others.
func run(out io.Writer, cfg *rest.Config, namespace string, admission bool, timeout time.Duration) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return err
	}
	cfg.Timeout = 10 * time.Second // per request
	cluster, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	c := check{client.NewNamespacedClient(cluster, namespace)}
	checks := []struct {
		what string
		try  func(context.Context) error
	}{
		{"the operator is ready", c.ready("goless-operator")},
		{"the build service is ready", c.ready("goless-build")},
		{"an operator leads", c.hasLeader},
		{"a valid Function is accepted", c.acceptsValid},
		{"an invalid Function is rejected", c.rejectsInvalid},
	}
	if !admission {
		checks = checks[:len(checks)-1]
	}
	for end := time.Now().Add(timeout); ; time.Sleep(time.Second) {
		var holds strings.Builder
		var errs []error
		for _, check := range checks {
			if err := check.try(context.Background()); err != nil {
				errs = append(errs, fmt.Errorf("check failed: %s: %w", check.what, err))
			} else {
				fmt.Fprintln(&holds, "ok:", check.what)
			}
		}
		if len(errs) == 0 || time.Now().After(end) {
			_, err := io.WriteString(out, holds.String())
			return errors.Join(append(errs, err)...)
		}
	}
}

// A check is a client for the namespace of the installation.
type check struct{ client.Client }

func (c check) ready(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &d); err != nil {
			return err
		}
		if d.Status.ReadyReplicas == 0 {
			return fmt.Errorf("the Deployment %s has no ready replica", name)
		}
		return nil
	}
}

// hasLeader checks that the lease was renewed within its duration.
func (c check) hasLeader(ctx context.Context) error {
	var lease coordinationv1.Lease
	if err := c.Get(ctx, client.ObjectKey{Name: "goless-operator"}, &lease); err != nil {
		return err
	}
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return errors.New("no replica holds the Lease goless-operator")
	}
	if old := time.Since(s.RenewTime.Time); old > time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return fmt.Errorf("%s holds the Lease goless-operator, but renewed it %s ago", *s.HolderIdentity, old.Round(time.Second))
	}
	return nil
}

func (c check) acceptsValid(ctx context.Context) error { return c.create(ctx, handler) }

func (c check) rejectsInvalid(ctx context.Context) error {
	err := c.create(ctx, strings.TrimSuffix(handler, "}\n"))
	if err == nil {
		return errors.New("accepted; check whether the API server can reach the Service goless-webhook")
	}
	if !strings.Contains(err.Error(), "handler.go:5") {
		return fmt.Errorf("rejected for another reason: %w", err)
	}
	return nil
}

// create creates a Function in a dry run.
func (c check) create(ctx context.Context, source string) error {
	return c.Create(ctx, &v1beta1.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "goless-check"},
		Spec:       v1beta1.FunctionSpec{Function: source},
	}, client.DryRunAll)
}
