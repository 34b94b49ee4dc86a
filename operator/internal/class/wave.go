package class

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/status"
)

// maxRolling is the most functions of a class that are rolled out at the same time.
const maxRolling = 20

// A wave is the functions of a class that may be rolled out now.
type wave struct {
	hash     string // of the class
	admitted map[types.NamespacedName]bool
}

// A member is a function of a class that has a Deployment.
type member struct {
	name types.NamespacedName

	// ready tells whether the Function is ready, as far as its status says.
	ready bool

	// updated tells whether the Deployment is as the class says now, and rolling whether that
	// is still being rolled out.
	updated, rolling bool
}

// progress is how far a class has reached its functions.
type progress struct{ functions, updated, rolling int }

// next returns how far a class is, and which functions are rolled out next: so many that, with
// those that are on their way, they are a tenth of all, and at least one. A rollout that the
// Deployment controller gives up, after ten minutes, keeps no others back any longer.
func next(members []member) (progress, []types.NamespacedName) {
	p := progress{functions: len(members)}
	var behind []types.NamespacedName
	for _, m := range members {
		switch {
		case m.updated && m.rolling:
			p.rolling++
			fallthrough
		case m.updated:
			p.updated++
		case m.ready:
			behind = append(behind, m.name)
		}
	}
	slices.SortFunc(behind, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	free := min(max(p.functions/10, 1), maxRolling) - p.rolling
	return p, behind[:min(max(free, 0), len(behind))]
}

// rolling tells whether pods of the latest template of a Deployment are still to come. Once they
// have come, that a function is scaled, wakes or loses a pod is no rollout.
func rolling(d *appsv1.Deployment) bool {
	s, want := d.Status, int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	if s.ObservedGeneration < d.Generation {
		return true
	}
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type != appsv1.DeploymentProgressing:
		case c.Status == corev1.ConditionFalse: // it has been given up
			return false
		case c.Reason == status.NewReplicaSetAvailable && s.UpdatedReplicas == s.Replicas:
			return false
		}
	}
	return s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas || s.AvailableReplicas < want
}
