package monitoring

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/kubelet"
	"goless.io/test/faults/plane"
)

const (
	good   = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {} // %d\n"
	broken = good + "var _ = Broken\n" // for the simulated node
	bad    = "package p // %d\n"
)

// A Prometheus that finds the operator's pod with scrape.yaml has data for every panel of its
// dashboard, and evaluates every alert, while Functions are created, changed and fail.
func TestOperatorMonitoring(t *testing.T) {
	t.Parallel()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set to a directory with kube-apiserver; make unit-api sets it")
	}
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plane.Start(t.Context(), assets, repo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	metrics, webhook := freeAddress(t), freeAddress(t)
	binary := filepath.Join(t.TempDir(), "goless-operator")
	if err := plane.BuildOperator(repo, binary, plane.Racing()); err != nil {
		t.Fatal(err)
	}
	settings, err := p.Settings(plane.InPod)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := p.Operator(binary, "operator", "", "--config="+settings, "--metrics-bind-address="+metrics, "--webhook-bind-address="+webhook,
		"--leader-elect", "--leader-elect-namespace=goless-system")
	if err == nil {
		err = operator.Start()
	}
	if err == nil {
		err = kubelet.Start(t.Context(), p.Config)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(operator.Kill)
	busy(t, p, webhook)
	activator, admin, err := p.StartActivator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(activator.Kill)
	wakeful(t, p)
	loaded(t, p)

	server := startPrometheus(t, configOfOperator(t, metrics, admin, p.Config.BearerToken))
	server.answers(t, readDashboard(t, "operator-dashboard.json"))
	eventually(t, "the alerts are evaluated", func() error { return evaluated(t, server) })
}

// freeAddress returns an unused address.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := loopback(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// busy changes Functions until the test ends: a valid one, one that does not compile, and an
// invalid one. It calls admission at an address like an API server.
func busy(t *testing.T, p *plane.Plane, address string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "busy"}}); err != nil {
		t.Fatal(err)
	}
	webhook := "https://" + address + secretPath(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var people sync.WaitGroup
	for name, source := range map[string]string{"good": good, "broken": broken, "bad": bad} {
		people.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "busy", Name: name}}
				fn.Spec.Function = fmt.Sprintf(source, n)
				apply(t, ctx, c, webhook, fn)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		people.Wait()
	})
}

// secretPath returns the path at which the operator serves its webhook. The operator writes it
// to the configuration of the webhook.
func secretPath(t *testing.T, c client.Client) string {
	t.Helper()
	at := "/nowhere"
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "goless-webhook"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "functions.goless.io",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "goless-system", Name: "goless-webhook", Path: &at}},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			AdmissionReviewVersions: []string{"v1"},
			// This API server finds no such Service, and ignores it.
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"goless.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"functions"}},
			}},
		}},
	}
	if err := c.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the operator configures the webhook", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		if at = *config.Webhooks[0].ClientConfig.Service.Path; at == "/nowhere" {
			return errors.New("it has written nothing")
		}
		return nil
	})
	return at
}

// apply calls admission, stores a Function, and waits until the operator reports that it is
// ready or stalled.
func apply(t *testing.T, ctx context.Context, c client.Client, webhook string, fn *v1beta1.Function) {
	if err := errors.Join(review(ctx, webhook, fn), write(ctx, c, fn)); err != nil && ctx.Err() == nil {
		t.Logf("%s: %v", fn.Name, err) // the operator may just be starting
	}
	for said := false; !said; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		var now v1beta1.Function
		if err := c.Get(ctx, client.ObjectKeyFromObject(fn), &now); err != nil {
			continue
		}
		for _, c := range now.Status.Conditions {
			told := c.Type == v1beta1.ConditionReady || c.Type == v1beta1.ConditionStalled
			said = said || told && c.Status == metav1.ConditionTrue && c.ObservedGeneration == now.Generation
		}
	}
}

// write creates a Function, or changes its source.
func write(ctx context.Context, c client.Client, fn *v1beta1.Function) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"function": fn.Spec.Function}})
	if err != nil {
		return err
	}
	changed := fn.DeepCopy()
	if err := client.IgnoreNotFound(c.Patch(ctx, changed, client.RawPatch("application/merge-patch+json", patch))); err != nil || changed.UID != "" {
		return err
	}
	return c.Create(ctx, fn)
}

// review calls the webhook for a Function.
func review(ctx context.Context, webhook string, fn *v1beta1.Function) error {
	object, err := json.Marshal(fn)
	if err != nil {
		return err
	}
	asked := &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "1", Namespace: fn.Namespace, Name: fn.Name, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
	}}
	asked.APIVersion, asked.Kind = "admission.k8s.io/v1", "AdmissionReview"
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, // its name is not this one
	}}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("admission answers %s", response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// configOfOperator returns scrape.yaml with the metrics ports of the operator and the activator
// that it would find in a cluster.
func configOfOperator(t *testing.T, operator, activator, token string) string {
	t.Helper()
	var config map[string]any
	decode(t, "scrape.yaml", &config)
	alerts, err := filepath.Abs(filepath.Join(folder, "operator-alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}
	config["rule_files"] = []string{alerts}
	var jobs []any
	for _, one := range config["scrape_configs"].([]any) {
		job := one.(map[string]any)
		name := job["job_name"].(string)
		address := map[string]string{"goless-operator": operator, "goless-activator": activator}[name]
		if address == "" {
			continue // it is not here
		}
		delete(job, "kubernetes_sd_configs")
		if job["authorization"] != nil {
			job["authorization"] = map[string]any{"credentials_file": file}
		}
		job["static_configs"] = []any{map[string]any{"targets": []string{address}, "labels": map[string]string{
			"__meta_kubernetes_pod_label_app_kubernetes_io_name": name,
			"__meta_kubernetes_pod_container_port_name":          "metrics",
			"__meta_kubernetes_pod_name":                         name + "-1",
		}}}
		jobs = append(jobs, job)
	}
	config["scrape_configs"] = jobs
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
