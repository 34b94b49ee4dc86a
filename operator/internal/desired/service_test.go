package desired_test

import (
	"testing"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// Gateways learn that a function on port 443 serves HTTP without TLS.
func TestAppProtocol(t *testing.T) {
	const h2c = "kubernetes.io/h2c"
	for _, test := range []struct {
		port           int32
		protocol, want string
	}{
		{port: 8080}, {port: 443, want: "http"}, {port: 443, protocol: h2c, want: h2c}, {port: 8080, protocol: h2c, want: h2c},
	} {
		fn := &v1beta1.Function{Spec: v1beta1.FunctionSpec{ServerPort: test.port, AppProtocol: test.protocol}}
		got := ""
		if p := desired.Service(fn).Spec.Ports[0].AppProtocol; p != nil {
			got = *p
		}
		if got != test.want {
			t.Errorf("port %d with the protocol %q has the protocol %q, want %q", test.port, test.protocol, got, test.want)
		}
	}
}

// The activator knows the timeout of requests if it may forward them: to a function that sleeps, or
// that a window is waking.
func TestTimeoutOfRequests(t *testing.T) {
	window := []v1beta1.Window{{Schedule: "0 8 * * *", Min: 1}}
	for name, test := range map[string]struct {
		scaling *v1beta1.Scaling
		want    string
	}{
		"Awake":  {nil, ""},
		"Sleeps": {&v1beta1.Scaling{Min: new(int32(0))}, "1m0s"},
		"Window": {&v1beta1.Scaling{Min: new(int32(1)), Windows: window}, "1m0s"},
	} {
		service := desired.Service(&v1beta1.Function{Spec: v1beta1.FunctionSpec{Scaling: test.scaling}})
		if got := service.Annotations[v1beta1.TimeoutAnnotation]; got != test.want {
			t.Errorf("%s: the timeout is %q, want %q", name, got, test.want)
		}
	}
}
