package admission

import (
	"context"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

// panicking is a decoder that panics.
type panicking struct{ admission.Decoder }

func (panicking) DecodeRaw(runtime.RawExtension, runtime.Object) error { panic("a defect") }

// A defect of the operator, or an API version that is newer than the operator, does not prevent the
// user from applying a Function.
func TestInternalErrorsAllow(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	raw := runtime.RawExtension{Raw: []byte(`{"apiVersion":"goless.io/v1beta1","kind":"Function","spec":{"replicas":"many"}}`)}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw}}
	for name, decoder := range map[string]admission.Decoder{"panic": panicking{}, "unknown": admission.NewDecoder(scheme)} {
		got, answer := (&validator{decoder: decoder}).validate(t.Context(), request)
		if !got.Allowed || len(got.Warnings) != 1 || answer != metrics.NotValidated {
			t.Errorf("%s: %s %+v, want allowed with a warning", name, answer, got)
		}
	}
}

// Permissions that were granted together with the Function may take effect later.
func TestPermissionDelay(t *testing.T) {
	asked := 0
	c := interceptor.NewClient(nil, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, review client.Object, _ ...client.CreateOption) error {
		asked++
		review.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = asked > 2
		return nil
	}})
	fn := &v1beta1.Function{Spec: v1beta1.FunctionSpec{ServiceAccountName: "reader"}}
	v := &validator{accounts: validation.ServiceAccounts{Client: c}}
	if errs, err := v.checkAccount(t.Context(), fn); err != nil || len(errs) > 0 || asked != 3 {
		t.Errorf("after %d reviews: %v, %v", asked, errs, err)
	}
}

// A value above a limit may be decreased and still exceed the limit.
func TestOldErrorsIgnored(t *testing.T) {
	wrong := func(fn *v1beta1.Function) field.ErrorList {
		found := validation.Spec(fn, settings.Settings{Function: settings.Function{MaxReplicas: 5}})
		return slices.Concat(found.Spec, found.LimitErrors)
	}
	old := &v1beta1.Function{}
	old.Name, old.Spec.Replicas, old.Spec.Function = "a", new(int32(9)), "package p"
	fn := old.DeepCopy()
	fn.Spec.Replicas = new(int32(7))
	if found := added(wrong(fn), wrong(old)); len(found) > 0 {
		t.Errorf("from 9 to 7 replicas, with a maximum of 5: %q", found)
	}
	fn.Spec.DrainSeconds, fn.Spec.Env = new(int32(9)), []v1beta1.EnvVar{{Name: "DRAIN_TIMEOUT", Value: "9s"}}
	if found := added(wrong(fn), wrong(old)); len(found) != 1 {
		t.Errorf("a new error in addition to an old one: %q, want one", found)
	}
}
