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

// validateClass returns what is wrong with the FunctionClass of a request. It asks the API server to
// create a sample Deployment with the class, in a dry run, so that the mistakes are told in the words
// that everybody knows from Deployments. It warns if some namespaces have another default class. That
// is not a mistake, because a default class is replaced by one that is created before it is removed.
func (v *validator) validateClass(ctx context.Context, request admission.Request) (found findings, err error) {
	class := &v1beta1.FunctionClass{}
	if err := v.decoder.DecodeRaw(request.Object, class); err != nil {
		return findings{}, err
	}
	selector := metav1validation.ValidateLabelSelector(class.Spec.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, field.NewPath("spec", "namespaceSelector"))
	for _, err := range selector {
		found.mistakes = append(found.mistakes, err.Error())
	}
	conflict, err := v.classes.DefaultConflict(ctx, class)
	if err != nil {
		return findings{}, err
	}
	if conflict != "" {
		found.warnings = append(found.warnings, conflict)
	}
	deployment, err := accesspolicy.Sample(v.settings.Of(class), v.namespace)
	if err == nil {
		err = v.client.Create(ctx, deployment, client.DryRunAll)
	}
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) {
		// Without a path it is a quota or a policy that refuses the sample, and not the class that is wrong.
		found.mistakes = append(found.mistakes, classMistakes(refused.ErrStatus.Details)...)
		return found, nil
	}
	return found, err
}

// classMistakes returns the causes for which the sample was refused that a change of the class can
// remove. Labels, annotations and fields of the pod have the same names in a class and in a Deployment.
func classMistakes(details *metav1.StatusDetails) (found []string) {
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

// setByOperator matches the fields of a pod that the operator sets from its own settings.
var setByOperator = regexp.MustCompile(`^(initContainers|containers|volumes)\b`)
