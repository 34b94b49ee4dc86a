package v1beta1_test

import (
	"testing"

	"goless.io/operator/api/v1beta1"
)

// Omitted fields have their default, also if the API server did not apply the defaults of the
// schema.
func TestBounds(t *testing.T) {
	n := func(n int32) *int32 { return &n }
	for name, test := range map[string]struct {
		spec        v1beta1.FunctionSpec
		least, most int32
		fixed       int32 // -1 if it depends on the load
		sleeps      bool
	}{
		"Nothing":     {v1beta1.FunctionSpec{}, 1, 1, 1, false},
		"Replicas":    {v1beta1.FunctionSpec{Replicas: n(3)}, 3, 3, 3, false},
		"Stopped":     {v1beta1.FunctionSpec{Replicas: n(0)}, 0, 0, 0, false},
		"Scaling":     {v1beta1.FunctionSpec{Replicas: n(3), Scaling: &v1beta1.Scaling{}}, 1, 1, 1, false},
		"Min":         {v1beta1.FunctionSpec{Scaling: &v1beta1.Scaling{Min: n(3)}}, 3, 3, 3, false},
		"Max":         {v1beta1.FunctionSpec{Scaling: &v1beta1.Scaling{Max: n(3)}}, 1, 3, -1, false},
		"Sleeps":      {v1beta1.FunctionSpec{Replicas: n(3), Scaling: &v1beta1.Scaling{Min: n(0)}}, 0, 1, -1, true},
		"SleepsAmong": {v1beta1.FunctionSpec{Scaling: &v1beta1.Scaling{Min: n(0), Max: n(3)}}, 0, 3, -1, true},
		"Both":        {v1beta1.FunctionSpec{Replicas: n(0), Scaling: &v1beta1.Scaling{Min: n(0), Max: n(3)}}, 0, 3, 0, false},
	} {
		fn := &v1beta1.Function{Spec: test.spec}
		least, most := fn.Bounds()
		fixed, ok := fn.FixedReplicas()
		if !ok {
			fixed = -1
		}
		if least != test.least || most != test.most || fixed != test.fixed || fn.MaySleep() != test.sleeps {
			t.Errorf("%s: bounds %d and %d, fixed %d, may sleep %t", name, least, most, fixed, fn.MaySleep())
		}
	}
}
