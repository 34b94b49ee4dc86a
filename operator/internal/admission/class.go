package admission

import (
	"context"
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/fence"
)

// validateClass returns what is wrong with the FunctionClass of a request: what the API server says of
// a Deployment that is made by it, in the words that everybody knows. That one is not stored.
func (v *validator) validateClass(ctx context.Context, request admission.Request) ([]string, error) {
	class := &v1beta1.FunctionClass{}
	if err := v.decoder.DecodeRaw(request.Object, class); err != nil {
		return nil, err
	}
	var found []string
	selector := metav1validation.ValidateLabelSelector(class.Spec.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, field.NewPath("spec", "namespaceSelector"))
	for _, err := range selector {
		found = append(found, err.Error())
	}
	deployment, err := fence.Sample(v.settings.Of(class), v.namespace)
	if err == nil {
		err = v.client.Create(ctx, deployment, client.DryRunAll)
	}
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) {
		// What has no path is of a quota or a policy, which are about the Deployments of a namespace.
		return append(found, classMistakes(refused.ErrStatus.Details)...), nil
	}
	return found, err
}

// classMistakes are the causes for which a Deployment was refused that its class can mend. Labels,
// annotations and fields of the pod have the same names in both.
func classMistakes(details *metav1.StatusDetails) (found []string) {
	if details == nil {
		return nil
	}
	for _, cause := range details.Causes {
		name, ok := strings.CutPrefix(cause.Field, "spec.template.")
		name = strings.TrimPrefix(name, "spec.")
		if ok && !ofSettings.MatchString(name) {
			found = append(found, "spec."+name+": "+cause.Message)
		}
	}
	return found
}

// ofSettings matches what the settings of the operator say.
var ofSettings = regexp.MustCompile(`^(initContainers|containers|volumes)\b`)
