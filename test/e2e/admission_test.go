package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// webhookName is the name of the webhook's objects in deploy/.
const webhookName = "goless-webhook"

// unhandled is an invalid source, with two errors.
const unhandled = "package p\n\nimport \"C\"\n\nfunc Handler() {}\n"

// kubectl apply reports the errors of an invalid Function, and accepts a valid one.
func TestAdmission(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admitted(ns)
	manifest := "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata: {name: bad}\nspec:\n  function: |\n    " +
		strings.ReplaceAll(unhandled, "\n", "\n    ") + "\n"
	want := "denied the request: \n" +
		"handler.go:3:8: cannot import \"C\": functions are built without cgo\n" +
		"handler.go:5:1: wrong signature for Handler, want: func Handler(http.ResponseWriter, *http.Request)\n"
	// On a busy machine the webhook may time out once. The Function is then accepted.
	ns.eventually("kubectl apply prints the errors", func() error {
		apply := exec.CommandContext(t.Context(), "kubectl", "-n", ns.name, "apply", "--dry-run=server", "-f", "-")
		apply.Stdin = strings.NewReader(manifest)
		if out, err := apply.CombinedOutput(); err == nil || !strings.HasSuffix(string(out), want) {
			return fmt.Errorf("it printed: %s", out)
		}
		return nil
	})
	if err := ns.dryRun(function("good", answering("good"))); err != nil {
		t.Errorf("the valid source was rejected: %v", err)
	}
}

// Every replica of the operator has a certificate that the API server trusts, whether it is the
// leader or not.
func TestAdmissionOfEveryReplica(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admitted(ns)
	for _, pod := range ns.operators() {
		address := forward(t, systemNamespace, "pod/"+pod.Name, "9443")
		ns.eventually("the certificate of "+pod.Name+" is trusted", func() error {
			var webhook admissionregistrationv1.ValidatingWebhookConfiguration
			if err := cluster.Get(t.Context(), client.ObjectKey{Name: webhookName}, &webhook); err != nil {
				return err
			}
			trusted := x509.NewCertPool()
			trusted.AppendCertsFromPEM(webhook.Webhooks[0].ClientConfig.CABundle)
			connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: webhookName + "." + systemNamespace + ".svc"})
			if err != nil {
				return err
			}
			return connection.Close()
		})
	}
}

// admitted waits until Functions of the namespace are validated: the operator may be starting,
// or another test may have stopped it.
func admitted(ns *namespace) {
	ns.t.Helper()
	ns.eventually("Functions are validated", func() error {
		if err := ns.dryRun(function("probe", unhandled)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a bad source is not refused, but %w", err)
		}
		return nil
	})
}

// dryRun reports whether a Function would be accepted.
func (ns *namespace) dryRun(fn *v1beta1.Function) error {
	fn.Namespace = ns.name
	return ns.client.Create(ns.t.Context(), fn, client.DryRunAll)
}
