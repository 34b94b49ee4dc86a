package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"goless.io/builder/handler"
)

// kind is the resource name of Functions, which is unambiguous if another group has a kind of that
// name.
const kind = "functions.goless.io"

// A Function contains the fields of a Function that this package and its callers use.
type Function struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name       string `json:"name"`
		Namespace  string `json:"namespace"`
		Generation int64  `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		ServerPort int `json:"serverPort"`
	} `json:"spec"`
	Status Status `json:"status"`
}

// Status contains the fields of the status that this package and its callers use.
type Status struct {
	ObservedGeneration int64       `json:"observedGeneration"`
	Conditions         []Condition `json:"conditions"`
	Service            string      `json:"service"`
	URL                string      `json:"url"`
	Build              struct {
		Diagnostics []handler.Diagnostic `json:"diagnostics"`
		Warnings    []handler.Diagnostic `json:"warnings"`
		Omitted     int                  `json:"omitted"`
		Output      string               `json:"output"`
	} `json:"build"`
}

// Condition is a condition in a status.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Condition types, and reasons of Ready, that callers handle.
const (
	Ready     = "Ready"
	Available = "Available"
	Stalled   = "Stalled"

	Serving     = "Serving"
	Asleep      = "Asleep"
	TestsFailed = "TestsFailed"
)

// String returns the reason and the message.
func (c Condition) String() string {
	if c.Reason == "" {
		return "not yet observed by the operator; check that it runs in this cluster"
	}
	return c.Reason + ": " + c.Message
}

// Condition returns a condition of the status, or one without a reason if it is missing.
func (f *Function) Condition(kind string) Condition {
	i := slices.IndexFunc(f.Status.Conditions, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		return Condition{Type: kind}
	}
	return f.Status.Conditions[i]
}

// Is reports whether a condition is True.
func (f *Function) Is(kind string) bool { return f.Condition(kind).Status == "True" }

// maxAnnotated is the maximum size of a manifest for client-side apply, which keeps a copy in an
// annotation, in bytes. All annotations of an object are limited to 256 KiB.
const maxAnnotated = 200_000

// Apply applies a manifest and returns the Functions in it.
func (k *Client) Apply(ctx context.Context, manifest []byte) ([]Function, error) {
	args := []string{"apply", "--output=json", "--filename=-"}
	if len(manifest) > maxAnnotated {
		args = append(args, "--server-side", "--force-conflicts") // like client-side apply
	}
	out, err := k.Output(ctx, bytes.NewReader(manifest), args...)
	if err != nil {
		return nil, err
	}
	var applied struct {
		Function
		Items []Function `json:"items"`
	}
	if err := json.Unmarshal(out, &applied); err != nil {
		return nil, fmt.Errorf("reading the output of kubectl apply: %w", err)
	}
	all := append(applied.Items, applied.Function)
	return slices.DeleteFunc(all, func(f Function) bool { return f.Kind != "Function" || !strings.HasPrefix(f.APIVersion, "goless.io/") }), nil
}

// Get returns a Function.
func (k *Client) Get(ctx context.Context, name string) (*Function, error) {
	var f Function
	if err := k.decode(ctx, &f, "get", kind, name); err != nil {
		return nil, err
	}
	return &f, nil
}

// Names returns the names of the Functions in the namespace.
func (k *Client) Names(ctx context.Context) ([]string, error) {
	var list struct{ Items []Function }
	err := k.decode(ctx, &list, "get", kind)
	names := make([]string, len(list.Items))
	for i, f := range list.Items {
		names[i] = f.Metadata.Name
	}
	return names, err
}

// Watch yields an event for each change of a Function.
func (k *Client) Watch(ctx context.Context, f *Function) iter.Seq2[Event[Function], error] {
	return watch[Function](ctx, k, kind, f.Metadata.Name, "--namespace="+f.Metadata.Namespace)
}

// Wake starts the first pod of a sleeping Function, like a request would.
func (k *Client) Wake(ctx context.Context, f *Function) error {
	_, err := k.Output(ctx, nil, "scale", "deployment", f.Metadata.Name, "--replicas=1", "--current-replicas=0", "--namespace="+f.Metadata.Namespace)
	return err
}

// AwaitEndpoints waits until the Service of a ready Function has ready endpoints and none of them
// is a pod that is being deleted, such as one of the previous version. Endpoints are pods of the
// Function or activators. They may change a moment after the Function becomes Ready.
func (k *Client) AwaitEndpoints(ctx context.Context, f *Function) error {
	args := []string{"endpointslices.discovery.k8s.io", "--selector=kubernetes.io/service-name=" + f.Status.Service, "--namespace=" + f.Metadata.Namespace}
	for _, err := range watch[struct{}](ctx, k, args...) {
		if err != nil {
			return err
		}
		if routes, err := k.routesAreCurrent(ctx, f, args); routes || err != nil {
			return err
		}
	}
	return nil
}

// routesAreCurrent reports whether the EndpointSlices that args select route to a Function, and not to a
// pod of it that is being deleted.
func (k *Client) routesAreCurrent(ctx context.Context, f *Function, args []string) (bool, error) {
	var slices endpointSlices
	if err := k.decode(ctx, &slices, append([]string{"get"}, args...)...); err != nil {
		return false, err
	}
	pods, err := k.pods(ctx, f)
	if err != nil {
		return false, err
	}
	living := map[string]bool{}
	for _, p := range pods {
		living[p.Metadata.Name] = p.Metadata.DeletionTimestamp == ""
	}
	return slices.areCurrent(living), nil
}

// activatorSlices is the value of the label endpointslice.kubernetes.io/managed-by in EndpointSlices with
// activators. See goless.io/operator/internal/activator/routing.
const activatorSlices = "goless-activator"

// endpointSlices are the EndpointSlices of a Service.
type endpointSlices struct {
	Items []struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Endpoints []struct {
			Conditions struct {
				Ready bool `json:"ready"`
			} `json:"conditions"`
			TargetRef struct {
				Name string `json:"name"`
			} `json:"targetRef"`
		} `json:"endpoints"`
	} `json:"items"`
}

// areCurrent reports whether there are ready endpoints, each of which is an activator or a living pod.
func (s *endpointSlices) areCurrent(living map[string]bool) bool {
	found := false
	for _, slice := range s.Items {
		ofActivators := slice.Metadata.Labels["endpointslice.kubernetes.io/managed-by"] == activatorSlices
		for _, endpoint := range slice.Endpoints {
			switch {
			case !endpoint.Conditions.Ready:
			case !ofActivators && !living[endpoint.TargetRef.Name]:
				return false
			default:
				found = true
			}
		}
	}
	return found
}

// IsFunctionError reports whether Ready is false because of the Function itself, and not because of its
// environment.
func (c Condition) IsFunctionError() bool {
	switch c.Reason {
	case "InvalidSource", "InvalidSpec", "CompileFailed", TestsFailed, "BuildTimeout", "BuildOutOfMemory", "CrashLooping", "RolledBack":
		return true
	}
	return false
}
