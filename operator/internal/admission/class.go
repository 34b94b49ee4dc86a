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
	"goless.io/operator/internal/accesspolicy"
)

// validateClass validates the FunctionClass of a request. It creates a sample Deployment with the
// class in a dry run, so that users see the errors of the API server for Deployments. It warns if a
// namespace has another default class. That is not an error, because a default class is replaced by
// creating the new one first.
func (v *validator) validateClass(ctx context.Context, request admission.Request) (found result, err error) {
	class := &v1beta1.FunctionClass{}
	if err := v.decoder.DecodeRaw(request.Object, class); err != nil {
		return result{}, err
	}
	selector := metav1validation.ValidateLabelSelector(class.Spec.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, field.NewPath("spec", "namespaceSelector"))
	for _, err := range selector {
		found.errs = append(found.errs, err.Error())
	}
	conflict, err := v.classes.DefaultConflict(ctx, class)
	if err != nil {
		return result{}, err
	}
	if conflict != "" {
		found.warnings = append(found.warnings, conflict)
	}
	deployment, err := accesspolicy.Sample(v.settings.Of(class), v.namespace)
	if err == nil {
		err = v.client.Create(ctx, deployment, client.DryRunAll)
	}
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) {
		// Errors without a path come from a quota or a policy that rejects the sample, and not from
		// the class.
		found.errs = append(found.errs, classErrors(refused.ErrStatus.Details)...)
		return found, nil
	}
	return found, err
}

// classErrors returns the errors in the sample that a change of the class can fix. Labels,
// annotations and pod fields have the same names in a class and in a Deployment.
func classErrors(details *metav1.StatusDetails) (found []string) {
	if details == nil {
		return nil
	}
	for _, cause := range details.Causes {
		name, ok := strings.CutPrefix(cause.Field, "spec.template.")
		name = strings.TrimPrefix(name, "spec.")
		if ok && !setByOperator.MatchString(name) {
			found = append(found, "spec."+name+": "+cause.Message)
		}
	}
	return found
}

// setByOperator matches the pod fields that the operator sets from its own settings.
var setByOperator = regexp.MustCompile(`^(initContainers|containers|volumes)\b`)
