package class

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/workload"
)

const (
	// maxRolling is the most functions of a class that are rolled out at the same time.
	maxRolling = 20

	// patience is for how long a function that may be rolled out, and is not, keeps others
	// back: as long as the Deployment controller waits for a rollout by default.
	patience = 10 * time.Minute
)

// A wave is the functions of a class that may be rolled out now, and are not yet as the class says.
type wave struct {
	hash string // of the class

	// admitted has since when each of them may be rolled out.
	admitted map[types.NamespacedName]time.Time
}

// A member is a function of a class that has a Deployment.
type member struct {
	name types.NamespacedName

	// ready tells whether the Function is ready, as far as its status says.
	ready bool

	// updated tells whether the Deployment is as the class says now.
	updated bool

	// rollout is that of the Deployment, whatever has begun it.
	rollout rollout
}

// progress is how far a class has reached its functions.
type progress struct {
	// functions have the class. Those that are updated run as it says, or begin to, and those that
	// are complete do. Some are rolling, to the class as it is or for another reason.
	functions, updated, complete, rolling int

	// failed could not be changed, or their rollouts were given up.
	failed []types.NamespacedName
}

// reached returns how far a class is, where the functions of a wave had their turn.
func reached(members []member, w wave) progress {
	p := progress{functions: len(members)}
	for _, m := range members {
		_, admitted := w.admitted[m.name]
		if m.updated {
			p.updated++
		}
		switch {
		case m.rollout == rolling:
			p.rolling++
		case m.updated && m.rollout == givenUp, !m.updated && admitted && !m.ready:
			p.failed = append(p.failed, m.name)
		case m.updated:
			p.complete++
		}
	}
	return p
}

// next returns the wave that follows another one. With the functions that are on their way they are a
// tenth of all, and at least one. What rolls anyway may roll to the class as it is. After that come
// those that are ready, because others may fail whatever the class says.
func next(members []member, before wave, hash string, now time.Time) wave {
	free := min(max(len(members)/10, 1), maxRolling)
	w := wave{hash: hash, admitted: map[types.NamespacedName]time.Time{}}
	var ready, others []types.NamespacedName
	for _, m := range members {
		since, admitted := before.admitted[m.name]
		if m.rollout == rolling || before.hash != hash {
			since = now
		}
		switch {
		case m.rollout == rolling, !m.updated && admitted:
			if now.Sub(since) < patience {
				free--
			}
			if !m.updated {
				w.admitted[m.name] = since
			}
		case m.updated:
		case m.ready:
			ready = append(ready, m.name)
		default:
			others = append(others, m.name)
		}
	}
	behind := slices.Concat(ready, others)
	for _, name := range behind[:min(max(free, 0), len(behind))] {
		w.admitted[name] = now
	}
	return w
}

// rollout is how far a Deployment is with its latest template.
type rollout int

const (
	over rollout = iota
	rolling
	givenUp // by the Deployment controller, or because somebody has paused it
)

// rolloutOf tells how far a Deployment is. Once the pods of its latest template have come, that the
// function is scaled, wakes or loses a pod is no rollout.
func rolloutOf(d *appsv1.Deployment) rollout {
	s, want := d.Status, workload.Replicas(d)
	if s.ObservedGeneration < d.Generation {
		return rolling
	}
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type != appsv1.DeploymentProgressing:
		case c.Status == corev1.ConditionFalse:
			return givenUp
		case c.Reason == workload.NewReplicaSetAvailable && s.UpdatedReplicas == s.Replicas:
			return over
		}
	}
	switch {
	case s.UpdatedReplicas >= want && s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= want:
		return over
	case d.Spec.Paused:
		return givenUp
	}
	return rolling
}
