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
